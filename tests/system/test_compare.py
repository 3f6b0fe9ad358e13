#!/usr/bin/env python3
"""`millrace compare`: recipes side by side; resumes; one failing run does not lose the others. And the big presets."""
import json
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from service import PROGRAM, ROOT, TINY, complaints, millrace


class Compare(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix="millrace-test-")
        self.addCleanup(self._folder.cleanup)
        self.out = Path(self._folder.name) / "out"

    def compare(self, *arguments, code=0):
        result = millrace("compare", TINY, "--out", self.out, "--json", *arguments, timeout=120)
        self.assertEqual(result.returncode, code, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()], result

    def test_side_by_side_and_again(self):
        runs, _ = self.compare("--recipes", "running_mean,grpo", "--steps", "3", "--seeds", "2")
        self.assertEqual([(run["recipe"], run["seed"], run["steps"]) for run in runs],
                         [("running_mean", 0, 3), ("grpo", 0, 3), ("running_mean", 1, 3), ("grpo", 1, 3)])
        for run in runs:
            self.assertEqual(run["failure"], "")
            config = self.out / f"{run['recipe']}-seed{run['seed']}" / "config.json"
            self.assertEqual(json.loads(config.read_text())["recipe"], run["recipe"])
            self.assertEqual(json.loads(config.read_text())["seed"], run["seed"])
            self.assertEqual(millrace("config", "check", config).returncode, 0)
        table = (self.out / "table.md").read_text()
        self.assertIn("| `grpo` | 2 | 0 |", table)
        self.assertEqual(len((self.out / "table.csv").read_text().splitlines()), 5)
        self.assertTrue((self.out / "picture.svg").read_text().startswith("<svg"))

        started = time.monotonic()
        again, _ = self.compare("--recipes", "running_mean,grpo", "--steps", "3", "--seeds", "2")
        self.assertEqual(again, runs, "finished runs are taken as they are")
        self.assertLess(time.monotonic() - started, 5)

    def test_one_fails(self):
        # Groups of 4 do not fit into 3 sessions: grpo cannot start. Found before anything runs.
        _, result = self.compare("--recipes", "running_mean,grpo", "--set", "sessions.limit=3", code=2)
        self.assertEqual(len(complaints(result)), 1)
        # The ledger's place is taken by a file: this run fails while it runs, the other does not.
        (self.out / "grpo-seed0").mkdir(parents=True)
        (self.out / "grpo-seed0" / "steps.jsonl").mkdir()
        runs, result = self.compare("--recipes", "grpo,running_mean", "--steps", "2", code=1)
        self.assertEqual([run["steps"] for run in runs], [0, 2])
        self.assertNotEqual(runs[0]["failure"], "")
        self.assertEqual(runs[1]["failure"], "")
        self.assertEqual(len(complaints(result)), 1, result.stderr)

    def test_one_gets_nowhere(self):
        runs, _ = self.compare("--recipes", "running_mean", "--set", "environment.name=live", "--patience", "2", code=1)
        self.assertEqual([(run["steps"], run["failure"]) for run in runs], [(0, "no step for 2 s")])

    def test_traffic(self):
        live = ["--recipes", "running_mean", "--steps", "1000", "--set", "environment.name=live"]
        users = f"{sys.executable} {ROOT / 'tests/bench/drifting_users.py'} --rounds 18"
        runs, _ = self.compare(*live, "--traffic", users)
        self.assertEqual(runs[0]["failure"], "")
        self.assertGreater(runs[0]["steps"], 0)
        self.assertLess(runs[0]["steps"], 1000)
        said = json.loads((self.out / "running_mean-seed0" / "traffic.txt").read_text())
        self.assertEqual(len(said["rounds"]), 18)
        again, _ = self.compare(*live, "--traffic", users)
        self.assertEqual(again, runs, "a run whose traffic has come to its end is finished")
        runs, _ = self.compare(*live, "--traffic", "echo no users >&2; exit 3", code=1)
        self.assertEqual(runs[0]["failure"], "the traffic ended with 3: no users")

    def test_unknown_recipe(self):
        _, result = self.compare("--recipes", "sao,ppo", code=2)
        self.assertIn('no recipe "ppo"', complaints(result)[0])


class BigPresets(unittest.TestCase):
    def test_check(self):
        for preset in ("math", "coding"):
            self.assertEqual(millrace("config", "check", f"config/presets/{preset}.json").returncode, 0)

    def test_coding_over_300_turns(self):
        with tempfile.TemporaryDirectory(prefix="millrace-test-") as folder:
            sets = ["model.path=", "model.max_context=9000", "environment.max_tokens=9000", "generation.max_tokens=1",
                    *(f"model.random.{name}" for name in ("hidden=8", "layers=1", "heads=1", "kv_heads=1",
                                                          "intermediate=8")),
                    "batch=1", "sessions.limit=1", "max_lag=0", "value.warmup_steps=0", "value.updates_per_step=1",
                    "policy.dtype=float32", "value.dtype=float32", "http.port=0", f"state.directory={folder}/state"]
            arguments = [PROGRAM, "serve", "config/presets/coding.json", "--json", "--steps", "1"]
            for entry in sets:
                arguments += ["--set", entry]
            result = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            rows = json.loads(millrace("trajectories", "--state-dir", f"{folder}/state", "--state", "trained",
                                       "--json").stdout)["trajectories"]
        self.assertEqual([(row["turns"], row["ending"]) for row in rows], [(300, "truncated")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
