#!/usr/bin/env python3
"""A real Prometheus scrapes the running service and answers the questions of its dashboards."""
import json
import socket
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

from service import Service, wait_until


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Prometheus:
    """Scrapes `target` every second; its data lies in `folder`."""

    def __init__(self, folder, target):
        config = folder / "prometheus.yml"
        config.write_text(json.dumps({  # JSON is YAML, too
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "millrace", "static_configs": [{"targets": [target]}]}],
        }))
        address = f"127.0.0.1:{free_port()}"
        self._url = f"http://{address}"
        self._log = open(folder / "prometheus.log", "wb")
        self._process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
             f"--web.listen-address={address}"], stdout=self._log, stderr=self._log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._log.close()

    def value(self, query):
        """The one number that PromQL gives, or None as long as there is none."""
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/query?" + urllib.parse.urlencode({"query": query})) as reply:
                result = json.load(reply)["data"]["result"]
        except urllib.error.URLError:
            return None
        return float(result[0]["value"][1]) if len(result) == 1 else None


class Scrape(unittest.TestCase):
    def test_promql(self):
        with Service() as service, Prometheus(service.folder, service.address) as prometheus:
            def ask(query, is_right):
                wait_until(lambda: (value := prometheus.value(query)) is not None and is_right(value), query, 90)

            ask('up{job="millrace"}', lambda up: up == 1)
            ask("rate(millrace_trained_tokens_total[10s])", lambda rate: rate > 0)
            ask("rate(millrace_generated_tokens_total[10s])", lambda rate: rate > 0)
            lag = 'millrace_policy_lag_versions_bucket{stage="total",verdict="trained"}'
            ask(f"histogram_quantile(0.99, sum by (le) (rate({lag}[10s])))", lambda versions: 0 <= versions <= 4)
            ask("millrace_policy_version", lambda version: version >= 2)
            ask('sum(millrace_trajectories_total{outcome="trained"})', lambda count: count >= 16)
            ask("millrace_reward_spec_version", lambda version: version == 1)

    def test_metrics_are_well_formed(self):
        with Service() as service:
            service.wait_for_steps(2)
            code, headers, text = service.http("GET", "/metrics")
        self.assertEqual(code, 200)
        self.assertTrue(headers["content-type"].startswith("text/plain"))
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
