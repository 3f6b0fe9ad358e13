#!/usr/bin/env python3
"""The rewards in the ledger are those of the spec they name: an independent scorer comes to the same numbers."""
import sqlite3
import subprocess
import sys
import unittest

from service import ROOT, Service


def rescore(state):
    return subprocess.run([sys.executable, str(ROOT / "tests/bench/rescore.py"), str(state)], cwd=ROOT,
                          capture_output=True, text=True, check=False)


class Rescore(unittest.TestCase):
    def test_ledger(self):
        with Service("--steps", "3") as service:
            self.assertEqual(service.wait(), 0, service.log())
            result = rescore(service.state)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

            # One falsified reward is found.
            connection = sqlite3.connect(service.state / "ledger.sqlite")
            connection.execute("UPDATE trajectories SET reward = reward + 0.01 "
                               "WHERE id = (SELECT min(id) FROM trajectories WHERE reward IS NOT NULL)")
            connection.commit()
            connection.close()
            self.assertEqual(rescore(service.state).returncode, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
