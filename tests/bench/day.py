#!/usr/bin/env python3
"""A day in a minute: three shifts under load, a scorer that is killed, a full disk, a service that hangs, a rollback, a
drain. All of it is seen by Prometheus and on the operator page in Chromium, and the right alerts reach a receiver through a
real Alertmanager, firing and resolved.

Rules are those of dashboards/, with every time in them shortened.
"""
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

for folder in ("system", "browser"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / folder))
from chromium import Chromium
from prometheus import Daemon, Prometheus, free_port
from service import ROOT, Service, wait_until
from test_scorers import Scorer, remote


class Receiver:
    """What Alertmanager notifies: remembers (alert, status)."""

    def __enter__(self):
        heard = self.heard = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                heard.extend((alert["labels"]["alertname"], alert["status"]) for alert in body["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


class Alertmanager(Daemon):
    def __init__(self, folder, receiver):
        config = folder / "alertmanager.yml"
        config.write_text(json.dumps({
            "route": {"receiver": "test", "group_by": ["alertname"], "group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h"},
            "receivers": [{"name": "test", "webhook_configs": [{"url": receiver, "send_resolved": True}]}]}))
        self.address = f"127.0.0.1:{free_port()}"
        super().__init__(
            ["prometheus-alertmanager", f"--config.file={config}", f"--storage.path={folder / 'alerts'}",
             "--cluster.listen-address=", f"--web.listen-address={self.address}"], folder / "alertmanager.log")


def shortened(folder):
    """The rules, with minutes become seconds."""
    files = []
    for name in ("recording.yml", "alerts.yml"):
        text = (ROOT / "dashboards" / name).read_text()
        text = re.sub(r"\[\d+m\]", "[10s]", text)
        text = re.sub(r"(for|keep_firing_for): \d+m", r"\1: 2s", text)
        text = re.sub(r"interval: 15s", "interval: 1s", text)
        path = folder / name
        path.write_text(text)
        files.append(str(path))
    return files


@unittest.skipIf(os.geteuid() != 0, "a disk that is full takes root: a small tmpfs is mounted for the state")
class Day(unittest.TestCase):
    def test_day(self):
        disk = tempfile.mkdtemp(prefix="millrace-disk-")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64M", "tmpfs", disk], check=True)
        self.addCleanup(os.rmdir, disk)
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        service = Service(state=Path(disk) / "state")
        with (service, Receiver() as receiver, Alertmanager(service.folder, receiver.url) as alertmanager,
              Chromium() as page):
            rules = {"rule_files": shortened(service.folder),
                     "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.address]}]}]}}
            with Prometheus(service.folder, service.address, rules) as prometheus:
                self.live(service, receiver, prometheus, page)

    def live(self, service, receiver, prometheus, page):
        def heard(alert, status, patience_s=60):
            wait_until(lambda: (alert, status) in receiver.heard, f"{alert} {status}", patience_s)

        def learns_on(steps=2):
            service.wait_for_steps(len(service.steps()) + steps)

        def page_says(state):
            page.wait(f"document.getElementById('state').textContent === '{state}'")

        wait_until(lambda: prometheus.value("millrace_policy_version") is not None, "a scrape")
        service.wait_for_steps(2)
        page.open(f"http://{service.address}/")
        page_says("running")
        self.assertEqual(receiver.heard, [], "no alert while all is well")

        for number, name in enumerate(("cute", "chuunibyou", "vowels"), start=2):
            self.assertEqual(service.command("shift", name).returncode, 0)
            page.wait(f"document.getElementById('head-spec').textContent === '{name} · {number}'")
            learns_on()
        wait_until(lambda: prometheus.value("millrace_preference_shifts_total") == 3, "three shifts in Prometheus")
        wait_until(lambda: (prometheus.value("changes(millrace_reward_spec_version[2m])") or 0) >= 2, "marks on the boards")

        scorer = Scorer()
        self.assertEqual(service.http("PUT", "/admin/v1/reward-spec", remote(scorer.port))[0], 200)
        learns_on()
        scorer.kill()
        heard("MillraceEnvironmentsFailing", "firing")
        page.wait("document.getElementById('ends-legend').textContent.includes('score_failed')")
        self.assertEqual(service.command("shift", "vowels").returncode, 0)
        heard("MillraceEnvironmentsFailing", "resolved")

        filler = service.state.parent / "filler"
        with open(filler, "wb") as file:
            try:
                while file.write(b"\0" * 65536):
                    file.flush()
            except OSError:
                pass  # the disk is full
        heard("MillraceDegraded", "firing")
        page_says("degraded")
        self.assertIsNone(service.process.poll(), service.log())
        filler.unlink()
        heard("MillraceDegraded", "resolved", 120)
        page_says("running")
        learns_on()

        service.process.send_signal(signal.SIGSTOP)  # it hangs
        heard("MillraceDown", "firing")
        service.process.send_signal(signal.SIGCONT)
        heard("MillraceDown", "resolved")
        learns_on(1)

        checkpoint = json.loads(service.http("POST", "/admin/v1/checkpoint", {})[2])["checkpoint_version"]
        learns_on()
        self.assertEqual(service.command("rollback", checkpoint).returncode, 0)
        page.wait("document.getElementById('toasts').textContent.includes('Back to an earlier policy')")
        learns_on()
        heard("MillraceRolledBack", "firing")
        self.assertEqual(prometheus.value("millrace_rollbacks_total"), 1)
        heard("MillraceRolledBack", "resolved")

        counts = service.status()["trajectories"]
        self.assertEqual(counts["accepted"], counts["trained"] + counts["queued"] + counts["rejected"])
        self.assertEqual(service.command("drain").returncode, 0)
        self.assertEqual(service.wait(), 0, service.log())
        page_says("not reachable")
        wait_until(lambda: receiver.heard.count(("MillraceDown", "firing")) == 2, "nobody is there any more")


if __name__ == "__main__":
    unittest.main(verbosity=2)
