#!/usr/bin/env python3
"""What a crash, a full disk and an operator may do to the state: it is whole, can be copied, and be learned again."""
import errno
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path

from service import FAULTY_DISK, PROGRAM, ROOT, Service, TINY, millrace, wait_until

BATCH = json.loads(millrace("config", "show", ROOT / TINY, "--json").stdout)["batch"]


class Crash(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="millrace-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.state = self.folder / "state"

    def service(self, *arguments, state=None, environment=None):
        return Service("--set", "checkpoint.every_steps=2", *arguments, state=state or self.state, environment=environment)

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

    def check_degrades_and_recovers(self, service, spoil, mend):
        """Nothing new begins and the state says why; then it goes on with nothing lost."""
        service.wait_for_steps(3)
        spoil()
        status = wait_until(lambda: (lambda s: s if s["state"] == "degraded" else None)(service.status()), "degraded")
        self.assertTrue(status["problem"])
        wait_until(lambda: service.metric("millrace_degraded") == 1, "the alarm")
        seen = {row["id"] for row in service.trajectories()}
        time.sleep(1)
        self.assertEqual(service.http("GET", "/livez")[0], 200)
        mend()
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

    def test_disk_full(self):
        self.state.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "none", self.state]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            self.skipTest("a file system of its own can be mounted by root only")
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.state], check=True)
        ballast = self.state / "ballast"

        def fill():
            with ballast.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError as error:
                    self.assertEqual(error.errno, errno.ENOSPC)

        with self.service() as service:
            self.check_degrades_and_recovers(service, fill, ballast.unlink)

    def test_disk_fails(self):
        for code in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO):
            with self.subTest(errno.errorcode[code]):
                self.state = self.folder / errno.errorcode[code]
                switch = self.folder / "errno"
                disk = {"LD_PRELOAD": FAULTY_DISK, "FAULTY_DISK_FOLDER": str(self.state), "FAULTY_DISK_ERRNO": str(switch)}
                with self.service(environment=disk) as service:
                    self.check_degrades_and_recovers(service, lambda: switch.write_text(str(code)), switch.unlink)

    def test_checkpoints_cannot_be_written(self):
        """Training goes on, the state says what is wrong, and attempts are few."""
        checkpoints, aside = self.state / "checkpoints", self.state / "aside"
        with self.service() as service:
            wait_until(lambda: list(checkpoints.glob("*[0-9]")), "a checkpoint")
            checkpoints.rename(aside)
            checkpoints.write_text("this is no folder")
            status = wait_until(lambda: (lambda s: s if s["state"] == "degraded" else None)(service.status()), "degraded")
            self.assertIn("checkpoints", status["problem"])
            service.wait_for_steps(len(service.steps()) + 3)
            failed = lambda: service.metric('millrace_checkpoints_total{result="failed"}')
            before = failed()
            self.assertGreaterEqual(before, 1)
            time.sleep(2)
            self.assertLessEqual(failed(), before + 1)
            checkpoints.unlink()
            aside.rename(checkpoints)
            wait_until(lambda: service.status()["state"] == "running", "the service goes on")
            self.assertEqual(service.stop(), 0, service.log())
        self.check_lineage(self.rows())

    def test_best_checkpoint_stays(self):
        sets = ("--set", "checkpoint.keep=1", "--set", "policy.lr=0.03")  # so large that the reward goes up and down
        with self.service(*sets, "--steps", "40") as service:
            self.assertEqual(service.wait(), 0, service.log())
        with sqlite3.connect(f"file:{self.state}/ledger.sqlite?mode=ro", uri=True) as ledger:
            kept = ledger.execute("select name, step, reward from checkpoints order by step").fetchall()
        self.assertEqual({name for name, *_ in kept}, {path.name for path in (self.state / "checkpoints").iterdir()})
        trained = [row for row in self.rows().values() if row["outcome"] == "trained"]
        newest = max(row["version"] for row in trained)
        last_two = [row["reward"] for row in trained if row["version"] > newest - 2]
        self.assertAlmostEqual(kept[-1][2], sum(last_two) / len(last_two), places=5)
        self.assertEqual(len(kept), 1 if kept[-1][2] == max(reward for *_, reward in kept) else 2)

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

    def test_lockstep_twice_n_is_n_kill_n(self):
        """In lockstep a run that was killed, at any moment and twice, ends with the very weights of one that was not."""
        for recipe, value_only in (("sao", 2), ("grpo", 0)):  # the critic's first steps are its alone
            with self.subTest(recipe):
                self.check_lockstep(recipe, value_only)

    def check_lockstep(self, recipe, value_only):
        sets = ("--set", f"recipe={recipe}", "--set", "pacing=lockstep", "--set", "threads=1",
                "--set", "checkpoint.every_steps=3")
        straight, killed = self.folder / f"{recipe}-straight", self.folder / f"{recipe}-killed"
        with self.service(*sets, "--steps", "40", state=straight) as service:
            self.assertEqual(service.wait(), 0, service.log())
        for steps in (4, 3):
            with self.service(*sets, state=killed) as service:
                service.wait_for_steps(steps)
                service.stop(signal.SIGKILL)
        with sqlite3.connect(f"file:{killed}/ledger.sqlite?mode=ro", uri=True) as ledger:
            reached = ledger.execute("select coalesce(max(step), 0) from checkpoints").fetchone()[0]
        left = 40 - max(0, reached - value_only)
        self.assertGreater(left, 0, "killed in time")
        with self.service(*sets, "--steps", str(left), state=killed) as service:
            self.assertEqual(service.wait(), 0, service.log())
            self.assertIn("queued again", service.log())
        newest = [max((state / "checkpoints").glob("*[0-9]"), key=lambda folder: folder.name.partition("-")[2])
                  for state in (straight, killed)]
        last = f"s{40 + value_only:06}"
        self.assertEqual([folder.name.partition("-")[2] for folder in newest], [last] * 2, "batches gone through")
        for file in ("policy.safetensors", *(["value.safetensors"] if value_only else [])):
            self.assertEqual((newest[0] / file).read_bytes(), (newest[1] / file).read_bytes(), file)

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
