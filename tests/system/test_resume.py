#!/usr/bin/env python3
"""Whatever ends a service, the next one goes on: nothing accepted is lost, no version returns, counters add up."""
import json
import shutil
import signal
import tempfile
import time
import unittest
from pathlib import Path

from service import Service, TINY, complaints, millrace


class Resume(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="millrace-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.state = self.folder / "state"

    def service(self, *arguments):
        return Service("--set", "checkpoint.every_steps=3", *arguments, state=self.state)

    def rows(self):
        result = millrace("trajectories", "--state-dir", self.state, "--limit", 1000000, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return {row["id"]: row for row in json.loads(result.stdout)["trajectories"]}

    def check_counts(self, status):
        counts = status["trajectories"]
        self.assertEqual(counts["accepted"], counts["trained"] + counts["queued"] + counts["rejected"], counts)

    def test_killed_and_resumed(self):
        with self.service() as service:
            service.wait_for_steps(8)
            before = service.status()
            service.stop(signal.SIGKILL)
        known = self.rows()
        self.assertGreaterEqual(len(known), before["trajectories"]["accepted"])
        with self.service() as service:
            after = service.status()
            self.check_counts(after)
            self.assertGreater(after["policy_version"], before["policy_version"])
            self.assertIn("goes on from checkpoint", service.log())
            self.assertGreaterEqual(after["checkpoint"]["step"], 3)
            service.wait_for_steps(3)
            self.check_counts(service.status())
            versions = [step["policy_version"] for step in service.steps()]
            self.assertEqual(versions, list(range(versions[0], versions[0] + len(versions))))
            self.assertGreater(versions[0], before["policy_version"])
            lifetime = service.metric("millrace_lifetime_trained_trajectories")
            trained_here = service.metric('millrace_trajectories_total{outcome="trained"}')
            self.assertGreater(lifetime, trained_here, "the gauge goes on, the counter starts anew")
            self.assertEqual(service.stop(), 0, service.log())
        rows = self.rows()
        self.assertLessEqual(known.keys(), rows.keys(), "nothing accepted is lost")
        self.assertEqual(set(rows), set(range(1, max(rows) + 1)), "no task is left out")

    def test_ended_in_order_and_resumed(self):
        with self.service() as service:
            service.wait_for_steps(4)
            self.assertEqual(service.stop(), 0, service.log())
            self.assertIn("everything learned is in the last checkpoint", service.log())
        rows = self.rows()
        version = max(row["version"] for row in rows.values() if row["outcome"] == "trained")
        with self.service("--steps", "2") as service:
            self.assertEqual(service.wait(), 0, service.log())
            self.assertNotIn("queued again", service.log())
            self.assertEqual([step["policy_version"] for step in service.steps()], [version + 1, version + 2])
        after = self.rows()
        for identity, row in rows.items():
            if row["state"] != "queued":
                self.assertEqual(after[identity], row, "what was settled stays as it was")
        self.assertFalse([row for row in after.values() if row["outcome"] == "aborted"])

    def test_fresh_moves_aside(self):
        with self.service("--steps", "1") as service:
            self.assertEqual(service.wait(), 0, service.log())
        with self.service("--fresh") as service:
            self.assertIn("the state of an earlier run is now in", service.log())
            self.assertLessEqual(min(step["policy_version"] for step in self.first_step(service)), 1)
        self.assertEqual(len(list(self.folder.glob("state.*"))), 1)

    def first_step(self, service):
        service.wait_for_steps(1)
        return service.steps()[:1]

    def test_rollback_while_it_serves(self):
        with self.service("--set", "checkpoint.keep=10") as service:
            service.wait_for_steps(9)
            result = service.command("rollback", "1000000")
            self.assertEqual((result.returncode, len(complaints(result))), (1, 1), result.stderr)
            self.assertIn("there is no checkpoint of version 1000000", result.stderr)
            made = json.loads(service.command("checkpoint", "--json").stdout)
            target = made["checkpoint_version"]
            service.wait_for_steps(len(service.steps()) + 4)
            before = service.steps()[-1]["policy_version"]  # many steps are made while the command runs
            result = service.command("rollback", target, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            back = json.loads(result.stdout)
            self.assertGreater(back["policy_version"], before)
            self.check_counts(service.status())
            service.wait_for_steps(len(service.steps()) + 4)
            self.check_counts(service.status())
            versions = [step["policy_version"] for step in service.steps()]
            self.assertEqual(versions, sorted(set(versions)), "no version returns")
            self.assertEqual(service.stop(), 0, service.log())
        self.assertTrue([row for row in self.rows().values() if row["outcome"] == "rolled_back"])
        with self.service("--steps", "1") as service:
            self.assertEqual(service.wait(), 0, service.log())

    def test_pause_and_resume(self):
        with self.service() as service:
            service.wait_for_steps(1)
            self.assertEqual(json.loads(service.command("pause", "--json").stdout), {"state": "paused"})
            time.sleep(0.5)  # the step in the making
            done = len(service.steps())
            time.sleep(1)
            self.assertEqual(len(service.steps()), done)
            self.assertEqual(service.status()["state"], "paused")
            self.assertEqual(service.http("GET", "/readyz")[0], 200)
            self.assertEqual(service.command("resume").returncode, 0)
            service.wait_for_steps(done + 2)
            self.assertEqual(service.command("drain").returncode, 0)
            self.assertEqual(service.wait(), 0, service.log())

    def test_state_of_another_model(self):
        with self.service("--steps", "1") as service:
            self.assertEqual(service.wait(), 0, service.log())
        result = millrace("serve", TINY, "--set", "http.port=0", "--set", f"state.directory={self.state}",
                          "--set", "seed=7")
        self.assertEqual((result.returncode, len(complaints(result))), (1, 1), result.stderr)
        self.assertIn("another model", complaints(result)[0])
        self.assertIn("--fresh", complaints(result)[0])

    def test_damaged_checkpoints(self):
        with self.service("--set", "checkpoint.keep=2") as service:
            service.wait_for_steps(8)
            service.stop(signal.SIGKILL)
        folders = sorted((self.state / "checkpoints").glob("*[0-9]"))
        self.assertGreaterEqual(len(folders), 2)
        newest = folders[-1] / "policy.safetensors"
        newest.write_bytes(newest.read_bytes()[:-1])
        with self.service("--steps", "1") as service:
            self.assertEqual(service.wait(), 0, service.log())
            self.assertIn(f"checkpoint {folders[-1].name} is passed over", service.log())
            self.assertIn(f"goes on from checkpoint {folders[-2].name}", service.log())
        for policy in (self.state / "checkpoints").glob("*/policy.safetensors"):
            policy.unlink()
        result = millrace("serve", TINY, "--set", "http.port=0", "--set", f"state.directory={self.state}")
        self.assertEqual((result.returncode, len(complaints(result))), (1, 1), result.stderr)
        self.assertIn("checkpoints is whole", complaints(result)[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
