#!/usr/bin/env python3
"""Signals end the service in order: exit code 0, nothing accepted is lost, the state can be used again."""
import json
import signal
import unittest

from service import Service, millrace


class Stop(unittest.TestCase):
    def check_ends_in_order(self, service, number):
        before = service.status()["trajectories"]
        self.assertEqual(service.stop(number), 0, service.log())
        result = millrace("trajectories", "--state-dir", service.state, "--limit", 10000, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = json.loads(result.stdout)["trajectories"]
        self.assertGreaterEqual(len(rows), before["accepted"])
        self.assertGreaterEqual(sum(row["outcome"] == "trained" for row in rows), before["trained"])
        self.assertEqual(len({row["id"] for row in rows}), len(rows))
        self.assertFalse([row for row in rows if row["outcome"] == "aborted"], "what waits is kept for the next start")

    def test_sigterm_while_training(self):
        with Service() as service:
            service.wait_for_steps(2)
            self.check_ends_in_order(service, signal.SIGTERM)

    def test_sigint_right_after_the_start(self):
        with Service() as service:
            self.check_ends_in_order(service, signal.SIGINT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
