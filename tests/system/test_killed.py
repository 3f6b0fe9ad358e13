#!/usr/bin/env python3
"""Killed again and again on the same state, at random moments and in the middle of writes. Nothing accepted is lost,
nothing is trained twice in the surviving lineage, the staleness account is exact, every start comes up. Judged by an
environment that keeps its own log, and by learning everything again. MILLRACE_CRASHES sets how often
(tests/bench/crash.sh: 200 times)."""
import http.client
import json
import math
import os
import random
import re
import shutil
import signal
import sqlite3
import statistics
import subprocess
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path

from service import FAULTY_DISK, PROGRAM, ROOT, Service, ServiceEnded, TINY, millrace, wait_until

CRASHES = int(os.environ.get("MILLRACE_CRASHES", "6"))
SETTINGS = json.loads(millrace("config", "show", ROOT / TINY, "--json").stdout)

# The witness: an environment that writes down which episode was answered with what.
WITNESS = r'''
while read -r line; do
  case $line in
    *'"type":"reset"'*) episode=${line%%,*}; episode=${episode##*:}; echo '{"prompt":"say:"}' ;;
    *) printf '%s %s\n' "$episode" "$line" >> "$1"; echo '{"terminated":true,"truncated":false}' ;;
  esac
done
'''


def comparable(text):
    """Bytes that are not UTF-8 become replacement characters, how many depends on the program."""
    return re.sub("\ufffd+", "\ufffd", text)


class Ledger:
    """A dead service's ledger, read with SQL of our own."""

    def __init__(self, state):
        connection = sqlite3.connect(f"file:{state}/ledger.sqlite?mode=ro", uri=True)
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        self.rows = {row[0]: row[1:] for row in connection.execute(
            "select id, outcome, answer, version, step, policy_version_newest from trajectories")}
        self.forks = connection.execute("select policy_version, resumed_as from forks order by resumed_as").fetchall()
        self.checkpoint = connection.execute(
            "select policy_version, step from checkpoints order by step desc, policy_version desc").fetchone() or (0, 0)
        self.steps = {step for step, in connection.execute("select step from checkpoints")}
        connection.close()

    def today(self, version):
        for at, resumed_as in self.forks:
            if version >= resumed_as:
                continue
            if version > at:
                return None
            version += resumed_as - at
        return version

    def queued_after_restart(self):
        """What is queued, or was learned after the checkpoint, without what an abandoned policy had sampled."""
        policy, step = self.today(self.checkpoint[0]), self.checkpoint[1]
        waiting = [row for row in self.rows.values() if row[0] == "queued" or (row[3] or 0) > step]
        stamps = [self.today(row[4]) for row in waiting]
        return sum(stamp is not None and stamp <= policy for stamp in stamps)


class Killed(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="millrace-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.state = self.folder / "state"
        self.log = self.folder / "witness.log"
        script = self.folder / "witness.sh"
        script.write_text(WITNESS)
        self.sets = ("--set", "environment.name=process", "--set", f"environment.command=sh {script} {self.log}",
                     "--set", "checkpoint.every_steps=2", "--set", "checkpoint.keep=4", "--set", "threads=1")
        self.chance = random.Random(1)
        self.seen = set()  # ids that the service has shown as accepted, over HTTP
        self.highest = -1
        self.ready = []    # seconds from each start until it served
        self.done = Counter()

    def service(self, *arguments, environment=None):
        return Service(*self.sets, *arguments, state=self.state, environment=environment)

    def watch(self, service, started, seconds):
        """Looks at a service for a while, or until it is dead."""
        wait_until(lambda: service.http("GET", "/readyz")[0] == 200, "ready")
        self.ready.append(time.monotonic() - started)
        status = service.status()
        counts = status["trajectories"]
        self.assertEqual(counts["accepted"], counts["trained"] + counts["queued"] + counts["rejected"], counts)
        self.assertGreater(status["policy_version"], self.highest, "no version returns")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and service.process.poll() is None:
            self.seen |= {row["id"] for row in service.trajectories(200)}
            self.highest = max(self.highest, service.status()["policy_version"])

    def kill_at_any_moment(self):
        started = time.monotonic()
        with self.service() as service:
            self.watch(service, started, self.chance.uniform(0.05, 2.5))
            service.stop(signal.SIGKILL)
        self.done["at any moment"] += 1

    def kill_in_a_write(self):
        """Maybe before it is up."""
        last = round(math.exp(self.chance.uniform(0, math.log(4000))))
        service = self.service(environment={"LD_PRELOAD": FAULTY_DISK, "FAULTY_DISK_FOLDER": str(self.state),
                                            "FAULTY_DISK_KILL": str(last)})
        started = time.monotonic()
        try:
            with service:
                try:
                    self.watch(service, started, 20)
                except (OSError, http.client.HTTPException, ValueError):
                    service.process.wait(10)  # it does not answer because it is dead
                service.stop(signal.SIGKILL)
        except ServiceEnded:
            pass  # before it listened
        self.assertEqual(service.process.returncode, -signal.SIGKILL)
        self.done["in a write"] += 1

    def check_ledger(self):
        ledger = Ledger(self.state)
        self.assertLessEqual(self.seen, ledger.rows.keys(), "nothing accepted is lost")
        answered = {}
        for line in self.log.read_text(errors="replace").splitlines():
            episode, _, message = line.partition(" ")
            answered.setdefault(int(episode) - SETTINGS["seed"] + 1, []).append(comparable(json.loads(message)["action"]))
        for identity, (outcome, answer, *_) in ledger.rows.items():
            if outcome != "aborted":
                self.assertIn(comparable(answer), answered.get(identity, ()), "the ledger holds what the witness has seen")
        trained = Counter(row[2] for row in ledger.rows.values() if row[0] == "trained")
        self.assertEqual(set(trained.values()) - {SETTINGS["batch"]}, set(), "every version is one whole batch")
        return ledger, answered

    def check_staleness_account(self, ledger):
        """A service that only answers shows the account as it finds it."""
        queued = ledger.queued_after_restart()
        with self.service("--no-learn") as service:
            status = service.status()
            self.assertEqual(status["trajectories"]["queued"], queued)
            room = (SETTINGS["max_lag"] + 1) * SETTINGS["batch"] - queued
            self.assertEqual(status["capacity"], max(0, min(SETTINGS["sessions"]["limit"], room)))
            self.highest = max(self.highest, status["policy_version"])
            service.stop(signal.SIGKILL)
        self.done["staleness accounts"] += 1

    def check_by_learning_again(self, ledger):
        """The newest checkpoint is what the ledger's batches, each learned from once, make of the oldest one."""
        if len(ledger.steps) < 2:
            return
        environment = {**os.environ, "MILLRACE_STATE__DIRECTORY": str(self.state), "MILLRACE_THREADS": "1"}
        result = subprocess.run([PROGRAM, "replay", TINY, "--json"], cwd=ROOT, env=environment, capture_output=True,
                                text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        self.assertTrue(json.loads(result.stdout.splitlines()[-1])["identical"])
        self.done["learned again"] += 1

    def test_killed_again_and_again(self):
        for crash in range(CRASHES):
            with self.subTest(crash=crash):
                (self.kill_in_a_write if crash % 2 else self.kill_at_any_moment)()
                ledger, _ = self.check_ledger()
                if crash % 10 in (2, 5):
                    self.check_staleness_account(ledger)
                    self.check_by_learning_again(ledger)
        with self.service("--steps", "5") as service:
            self.assertEqual(service.wait(), 0, service.log())
        ledger, answered = self.check_ledger()
        self.assertEqual(set(ledger.rows), set(range(1, max(ledger.rows) + 1)), "no task is left out")
        self.assertLessEqual(answered.keys(), ledger.rows.keys(), "what the witness has seen has come in")
        self.check_by_learning_again(ledger)
        self.assertGreaterEqual(self.done["learned again"], 1)
        outcomes = Counter(row[0] for row in ledger.rows.values())
        self.assertEqual(outcomes["aborted"], 0)
        print(json.dumps({**self.done, **outcomes, "witnessed": len(answered), "shown before a kill": len(self.seen),
                          "start to ready, seconds": {"median": round(statistics.median(self.ready), 2),
                                                      "max": round(max(self.ready), 2)}}))
        self.assertLess(max(self.ready), 20)  # under 3 s on an idle machine


if __name__ == "__main__":
    unittest.main(verbosity=2)
