#!/usr/bin/env python3
"""Replicas: two services that learn as one, started, killed and started again."""
import json
import re
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from service import PROGRAM, ROOT, TINY, complaints, millrace, wait_until


def free_address():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{any_port.getsockname()[1]}"


def tensors(file):
    """{name: its bytes} of a safetensors file."""
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    of = lambda entry: data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]]
    return {name: of(entry) for name, entry in header.items()}


class Replicas(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="millrace-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.states = [self.folder / f"state{rank}" for rank in range(2)]

    def start(self, *arguments, only_second=()):
        """Both, as processes."""
        address = free_address()
        processes = []
        for rank, state in enumerate(self.states):
            sets = {"http.port": 0, "state.directory": state, "threads": 1, "checkpoint.every_steps": 3,
                    "checkpoint.keep": 3, "replicas.count": 2, "replicas.rank": rank, "replicas.address": address,
                    "replicas.interface": "lo", "replicas.timeout_s": 30}
            words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
            log = open(self.folder / f"log{rank}", "w")
            self.addCleanup(log.close)
            process = subprocess.Popen([PROGRAM, "serve", TINY, *words, *arguments, *(only_second if rank else ())],
                                       cwd=ROOT, stdout=subprocess.DEVNULL, stderr=log)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            processes.append(process)
        return processes

    def log(self, rank):
        return (self.folder / f"log{rank}").read_text()

    def end(self, processes):
        for rank, process in enumerate(processes):
            self.assertEqual(process.wait(60), 0, self.log(rank))

    def ask(self, rank, query):
        with sqlite3.connect(f"file:{self.states[rank]}/ledger.sqlite?mode=ro", uri=True) as ledger:
            return ledger.execute(query).fetchall()

    def check_as_one(self):
        """The newest checkpoints hold the same weights and optimizers, learned from different trajectories."""
        newest = []
        for rank, state in enumerate(self.states):
            name = self.ask(rank, "select name from checkpoints order by step desc limit 1")[0][0]
            folder = state / "checkpoints" / name
            value = {key: data for key, data in tensors(folder / "value.safetensors").items()
                     if not key.startswith("explained.") and key != "reward_levels"}  # of what each has seen itself
            newest.append((name, tensors(folder / "policy.safetensors"), value))
        self.assertEqual(newest[0][0], newest[1][0])
        self.assertTrue(newest[0][1] == newest[1][1], "policies")
        self.assertTrue(newest[0][2] == newest[1][2], "critics")
        answers = [self.ask(rank, "select answer from trajectories where outcome = 'trained' order by id desc") for rank in (0, 1)]
        self.assertGreater(len(answers[0]), 60)
        self.assertNotEqual(answers[0][:16], answers[1][:16])

    def test_learn_as_one(self):
        self.end(self.start("--steps", "12"))
        self.check_as_one()

    def test_one_is_killed(self):
        """The other ends by itself; started again, both go on from the newest checkpoint that they have in common."""
        checkpoints = lambda rank: self.ask(rank, "select name from checkpoints order by step desc")
        processes = self.start()
        wait_until(lambda: all((state / "checkpoints").exists() for state in self.states), "both have begun")
        wait_until(lambda: len(checkpoints(1)) == 3, "there are checkpoints")
        processes[1].kill()
        self.assertNotEqual(processes[0].wait(60), 0)
        self.assertIn("another replica has gone", self.log(0))
        self.assertIn("replicas go on together", self.log(0))
        # One of them has not come to its last one.
        shutil.rmtree(self.states[1] / "checkpoints" / checkpoints(1)[0][0])
        self.end(self.start("--steps", "6"))
        self.assertIn("queued again", self.log(0))
        self.check_as_one()

    def test_stopped(self):
        """Told to end, one may have been waiting for the other's last step: both go on from the same one."""
        processes = self.start()
        wait_until(lambda: all("listening on" in self.log(rank) for rank in (0, 1)), "both run")
        time.sleep(1)
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)
        self.end(self.start("--steps", "6"))
        self.check_as_one()

    def test_newcomer(self):
        """One with nothing must not take the others back to the start."""
        self.end(self.start("--steps", "4"))
        shutil.rmtree(self.states[1])
        for _ in range(2):  # also when it tries again
            for rank, process in enumerate(self.start("--steps", "2")):
                self.assertNotEqual(process.wait(60), 0)
                self.assertIn("replica 1 begins with an empty state", self.log(rank))
        shutil.rmtree(self.states[1])
        shutil.copytree(self.states[0], self.states[1])
        self.end(self.start("--steps", "6"))
        self.check_as_one()
        left = self.ask(1, "select count(*) from trajectories where reason = 'another replica learns from it'")
        self.assertGreater(left[0][0], 0)

    def test_unlike(self):
        processes = self.start("--steps", "2", only_second=("--set", "policy.lr=1e-6"))
        for rank, process in enumerate(processes):
            self.assertNotEqual(process.wait(60), 0)
            self.assertIn("replica 1 and replica 0 cannot learn together", self.log(rank))

    def test_no_way_back_alone(self):
        self.start()
        listening = lambda: re.search(r"listening on http://(\S+)", self.log(0))
        address = wait_until(listening, "replica 0 listens").group(1)
        refused = millrace("rollback", 1, "--address", address)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("cannot go back without the others", complaints(refused)[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
