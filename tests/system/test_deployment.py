#!/usr/bin/env python3
"""The deployment files, each read by the tool that knows its kind."""
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from service import ROOT, millrace

DEPLOY = ROOT / "deploy"
CHECKERS = ROOT / "third_party/checkers"  # PyPI's kubernetes-validate, unpacked by deploy/setup


def run(*command, cwd=ROOT, environment=None):
    return subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False, timeout=120,
                          env=environment)


class Deployment(unittest.TestCase):
    def check_ok(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_yaml(self):
        self.check_ok(run("yamllint", "--strict", "deploy/compose", "deploy/kubernetes", "deploy/openapi.yaml", "dashboards/alerts.yml",
                          "dashboards/recording.yml"))

    def test_systemd_unit(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = Path(folder) / "millrace.service"
            unit.write_text(re.sub(r"/opt/millrace/build/release/millrace", "/bin/true",
                                   (DEPLOY / "systemd/millrace.service").read_text()))
            result = run("systemd-analyze", "verify", unit)
            self.assertEqual((result.returncode, [line for line in result.stderr.splitlines() if "millrace" in line]), (0, []),
                             result.stderr)
            secure = run("systemd-analyze", "security", "--offline=true", "--threshold=20", unit)
            self.check_ok(secure)

    def test_prometheus_and_alertmanager(self):
        with tempfile.TemporaryDirectory() as folder:  # with the rules where compose mounts them
            for source in ("deploy/compose/prometheus.yml", "dashboards/alerts.yml", "dashboards/recording.yml"):
                text = (ROOT / source).read_text().replace("/run/secrets/millrace_token", f"{folder}/token")
                (Path(folder) / Path(source).name).write_text(text)
            (Path(folder) / "token").write_text("x")
            self.check_ok(run("promtool", "check", "config", f"{folder}/prometheus.yml"))
        self.check_ok(run("amtool", "check-config", DEPLOY / "compose/alertmanager.yml"))

    def test_kubernetes(self):
        for name in ("millrace", "network"):
            self.check_ok(run(sys.executable, "-m", "kubernetes_validate", "--version", "1.29", "--strict",
                              DEPLOY / f"kubernetes/{name}.yaml", environment={"PYTHONPATH": str(CHECKERS), "PATH": "/usr/bin:/bin"}))

    def test_kubernetes_config_is_one(self):
        text = (DEPLOY / "kubernetes/millrace.yaml").read_text()
        config = re.search(r"millrace\.json: \|\n((?:    .*\n)+)", text)[1]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "millrace.json"
            path.write_text(config)
            json.loads(config)
            self.check_ok(millrace("config", "check", path))

    def test_dockerfile_names_what_is_there(self):
        """No Docker here: the parts it copies exist, and the program's libraries are among its packages."""
        text = (DEPLOY / "Dockerfile").read_text()
        for source in re.findall(r"^COPY (?!--from)(\S+)", text, re.M):
            self.assertTrue((ROOT / source).exists(), source)
        self.assertIn("USER 10001", text)
        libraries = run("ldd", ROOT / "build/release/millrace").stdout
        for file in re.findall(r"=> (/(?:usr/)?lib/\S+)", libraries):
            package = run("dpkg", "-S", Path(file).resolve()).stdout.split(":")[0]
            needed = run("dpkg-query", "-W", "-f=${Priority} ${Essential}", package).stdout
            always_there = "required" in needed or "yes" in needed or package in ("libc6", "libstdc++6", "libgcc-s1")
            self.assertTrue(always_there or package in text, f"{file} of {package} is not in the image")

    def test_compose_mounts_exist(self):
        text = (DEPLOY / "compose/compose.yaml").read_text()
        for source in re.findall(r"[\[\s\"-](\.\.?/[^:\"\s]+):", text):
            self.assertTrue((DEPLOY / "compose" / source).exists(), source)

    def test_alerts_of_the_boards_are_what_is_mounted(self):
        text = (DEPLOY / "compose/compose.yaml").read_text()
        for file in ("alerts.yml", "recording.yml"):
            self.assertIn(f"dashboards/{file}", text)
            self.assertIn(f"  - {file}", (DEPLOY / "compose/prometheus.yml").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
