#!/usr/bin/env python3
"""Killed at random moments, again and again on the same state: nothing accepted is lost, nothing is trained twice in the
surviving lineage, and every start comes up. MILLRACE_CRASHES sets how often (tests/bench/crash.sh: 200 times)."""
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path

from service import PROGRAM, ROOT, Service, TINY, millrace, wait_until

CRASHES = int(os.environ.get("MILLRACE_CRASHES", "6"))
BATCH = json.loads(millrace("config", "show", ROOT / TINY, "--json").stdout)["batch"]


class Crash(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="millrace-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.state = self.folder / "state"

    def service(self, *arguments, state=None):
        return Service("--set", "checkpoint.every_steps=2", *arguments, state=state or self.state)

    def rows(self, state=None):
        result = millrace("trajectories", "--state-dir", state or self.state, "--limit", 1000000, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = json.loads(result.stdout)["trajectories"]
        self.assertEqual(len({row["id"] for row in rows}), len(rows))
        return {row["id"]: row for row in rows}

    def check_lineage(self, rows):
        """Every version of the surviving lineage was made of one whole batch."""
        trained = Counter(row["version"] for row in rows.values() if row["outcome"] == "trained")
        self.assertEqual(set(trained.values()) - {BATCH}, set(), trained)

    def check_status(self, service, highest):
        status = service.status()
        counts = status["trajectories"]
        self.assertEqual(counts["accepted"], counts["trained"] + counts["queued"] + counts["rejected"], counts)
        self.assertGreater(status["policy_version"], highest, "no version returns")
        return status

    def test_killed_again_and_again(self):
        chance = random.Random(1)
        seen = set()  # what the service has shown as accepted, over HTTP
        highest = -1
        slowest = 0.0
        for crash in range(CRASHES):
            started = time.monotonic()
            with self.subTest(crash=crash), self.service() as service:
                wait_until(lambda: service.http("GET", "/readyz")[0] == 200, "ready")
                slowest = max(slowest, time.monotonic() - started)
                self.check_status(service, highest if crash else -1)
                deadline = time.monotonic() + chance.uniform(0.05, 2.5)
                while time.monotonic() < deadline:
                    seen |= {row["id"] for row in service.trajectories(200)}
                    highest = max(highest, service.status()["policy_version"])
                service.stop(signal.SIGKILL)
            rows = self.rows()
            self.assertLessEqual(seen, rows.keys(), "nothing accepted is lost")
            self.check_lineage(rows)
        with self.service("--steps", "3") as service:
            self.assertEqual(service.wait(), 0, service.log())
        rows = self.rows()
        self.assertLessEqual(seen, rows.keys())
        self.check_lineage(rows)
        self.assertFalse([row for row in rows.values() if row["outcome"] == "aborted"])
        print(f"{CRASHES} kills, {len(rows)} trajectories, {len(seen)} seen; slowest from start to ready {slowest:.2f} s")
        self.assertLess(slowest, 20)  # under 3 s on an idle machine

    def test_disk_full(self):
        """No file may grow any more: nothing new begins, the state says why; then it goes on with nothing lost."""
        with self.service() as service:
            service.wait_for_steps(3)
            _, hard = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (200_000, hard))
            status = wait_until(lambda: (lambda s: s if s["state"] == "degraded" else None)(service.status()),
                                "the service is degraded")
            self.assertTrue(status["problem"])
            self.assertEqual(service.metric("millrace_degraded"), 1)
            seen = {row["id"] for row in service.trajectories()}
            time.sleep(1)
            self.assertEqual(service.http("GET", "/livez")[0], 200)
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
            wait_until(lambda: service.status()["state"] == "running", "the service goes on")
            self.assertEqual(service.metric("millrace_degraded"), 0)
            service.wait_for_steps(len(service.steps()) + 3)
            counts = service.status()["trajectories"]
            self.assertEqual(counts["accepted"], counts["trained"] + counts["queued"] + counts["rejected"], counts)
            self.assertEqual(service.stop(), 0, service.log())
        rows = self.rows()
        self.assertLessEqual(seen, rows.keys())
        self.check_lineage(rows)
        self.assertEqual(set(rows), set(range(1, max(rows) + 1)), "what waited in memory was written afterwards")

    def test_backup_and_restore(self):
        copy = self.folder / "copy"
        with self.service() as service:
            service.wait_for_steps(5)
            self.assertEqual(service.command("pause").returncode, 0)
            made = json.loads(service.command("checkpoint", "--json").stdout)
            copy.mkdir()
            subprocess.run(["sqlite3", self.state / "ledger.sqlite", f".backup {copy}/ledger.sqlite"], check=True)
            shutil.copytree(self.state / "checkpoints", copy / "checkpoints")
            counts = service.status()["trajectories"]
            self.assertEqual(service.command("resume").returncode, 0)
            service.wait_for_steps(len(service.steps()) + 2)
            service.stop(signal.SIGKILL)
        shutil.rmtree(self.state)
        with self.service("--steps", "2", state=copy) as service:
            self.assertIn(f"goes on from checkpoint {made['checkpoint']}", service.log())
            self.assertEqual(service.wait(), 0, service.log())
        rows = self.rows(copy)
        self.assertGreaterEqual(len(rows), counts["accepted"])
        self.check_lineage(rows)

    def test_replay(self):
        """What the learners did between two checkpoints can be repeated bit for bit, also across a kill."""
        sets = ("--set", "threads=1", "--set", "checkpoint.keep=4", "--set", f"state.directory={self.state}")
        with self.service(*sets) as service:
            service.wait_for_steps(7)
            service.stop(signal.SIGKILL)
        with self.service(*sets, "--steps", "5") as service:
            self.assertEqual(service.wait(), 0, service.log())
        environment = {**os.environ, "MILLRACE_STATE__DIRECTORY": str(self.state), "MILLRACE_THREADS": "1"}
        run = lambda *arguments: subprocess.run(
            [PROGRAM, "replay", TINY, "--json", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True,
            timeout=60, check=False)
        result = run()
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        *steps, verdict = map(json.loads, result.stdout.splitlines())
        self.assertTrue(verdict["identical"], verdict)
        self.assertGreaterEqual(len(steps), 4)
        other = run("--set", "trust_region.high=0.01")
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertFalse(json.loads(other.stdout.splitlines()[-1])["identical"])

    def test_trace(self):
        with self.service("--steps", "80") as service:
            service.wait_for_steps(1)
            trained = next(row for row in service.trajectories() if row["outcome"] == "trained")
            asked = service.command("trace", trained["id"])
            self.assertEqual(asked.returncode, 0, asked.stderr)
            for stage in ("permit", "generate", "environment", "score", "accept", "learn", "publish"):
                self.assertIn(stage, asked.stdout)
            missing = service.command("trace", 999999)
            self.assertEqual(missing.returncode, 1)
            self.assertEqual(service.wait(), 0)
        read = json.loads(millrace("trace", trained["id"], "--state-dir", self.state, "--json").stdout)
        self.assertEqual(read["version"], trained["version"])
        self.assertGreaterEqual(read["step"], 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
