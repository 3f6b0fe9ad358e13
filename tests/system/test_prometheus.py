#!/usr/bin/env python3
"""A real Prometheus scrapes the running service and answers the questions of its dashboards."""
import subprocess
import unittest

from prometheus import Prometheus
from service import Service, wait_until


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
