#!/usr/bin/env python3
"""What is done about a collapse, and a critic trained ahead of its policy."""
import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from service import PROGRAM, ROOT, TINY, Service, complaints, millrace, wait_until


class Guard(unittest.TestCase):
    # A random byte model starts at 5.5 nats: with this bound every step looks collapsed.
    COLLAPSED = ("--set", "recipe=running_mean", "--set", "guard.min_entropy=10", "--set", "guard.patience=2")

    def test_stop(self):
        with Service(*self.COLLAPSED, "--set", "guard.action=stop") as service:
            wait_until(lambda: service.status()["state"] == "paused", "the guard stops the service")
            self.assertIn("entropy is", service.log())
            self.assertIn("millrace_guard_alarms_total 1", service.http("GET", "/metrics")[2])
            before = service.status()["policy_version"]
            self.assertEqual(service.http("POST", "/admin/v1/resume")[0], 200)
            wait_until(lambda: service.status()["policy_version"] > before, "it goes on when it is told to")

    def test_warn(self):
        with Service(*self.COLLAPSED) as service:
            service.wait_for_steps(5)
            self.assertEqual(service.status()["state"], "running")
            self.assertIn("entropy is", service.log())

    def test_an_evaluation_stops_it(self):
        with Service("--set", "recipe=running_mean", "--set", "guard.action=stop", "--set", "guard.max_kl=0", "--set",
                     "evaluation.every=3", "--set", "evaluation.tasks=4") as service:
            wait_until(lambda: service.status()["state"] == "paused", "the guard stops the service")
            self.assertIn("KL to the start policy is", service.log())

    def test_rollback(self):
        # After ten steps a gradient above the median is called exploded, which some step soon is.
        with Service("--set", "recipe=running_mean", "--set", "guard.action=rollback", "--set", "guard.patience=1",
                     "--set", "guard.max_gradient_growth=1", "--set", "checkpoint.every_steps=1", "--set",
                     "checkpoint.keep=50") as service:
            service.wait_for_steps(1)
            rate = service.metric('millrace_learning_rate{learner="policy"}')
            wait_until(lambda: "rolled back to version" in service.log(), "the guard rolls back")
            back, resumed = map(int, re.search(r"rolled back to version (\d+), which goes on as (\d+)",
                                               service.log()).groups())
            good = int(re.search(r"last good one (\d+)", service.log()).group(1))
            self.assertLessEqual(back, good)
            self.assertGreater(resumed, back)
            wait_until(lambda: service.status()["policy_version"] > resumed, "it learns on")
            wait_until(lambda: service.metric('millrace_learning_rate{learner="policy"}') < rate, "by smaller steps")


class Pretraining(unittest.TestCase):
    def test_it_learns_what_a_prompt_is_worth(self):
        with tempfile.TemporaryDirectory(prefix="millrace-test-") as folder:
            data = Path(folder) / "scored.jsonl"
            data.write_text("".join(json.dumps({
                "messages": [{"role": "user", "content": "good" if i % 3 else "bad"}], "answer": "abcdef"[i % 5:],
                "reward": 1.0 if i % 3 else 0.0}) + "\n" for i in range(1600)), encoding="utf-8")
            lines, _ = self.pretrain("--data", data, "--out", Path(folder) / "critic")
            self.assertLess(abs(lines[-1]["explained_variance_before"]), 0.01)
            self.assertGreater(lines[-1]["explained_variance_after"], 0.8)

    def pretrain(self, *arguments, code=0):
        result = millrace("pretrain-value", TINY, *arguments, "--json")
        self.assertEqual(result.returncode, code, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()], result

    def test_on_a_ledger(self):
        with tempfile.TemporaryDirectory(prefix="millrace-test-") as folder:
            folder = Path(folder)
            state, out = folder / "state", folder / "critic"

            def serve(steps, *sets):
                arguments = [PROGRAM, "serve", TINY, "--json", "--steps", str(steps), "--set", "http.port=0"]
                for entry in sets:
                    arguments += ["--set", entry]
                return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

            self.assertEqual(serve(12, "recipe=running_mean", f"state.directory={state}").returncode, 0)
            lines, _ = self.pretrain("--data", state, "--out", out)
            self.assertGreater(len(lines), 5)
            last = lines[-1]
            self.assertGreaterEqual(last["trajectories"], 12 * 16)
            self.assertGreater(last["held_out"], 10)
            self.assertNotEqual(last["explained_variance_after"], last["explained_variance_before"])

            again, _ = self.pretrain("--data", state, "--out", out)
            self.assertEqual(len(again), 1, "all of it has been read")
            self.assertEqual(again[0]["explained_variance_after"], last["explained_variance_after"])
            _, result = self.pretrain("--data", folder / "other.jsonl", "--out", out, code=1)
            self.assertEqual(len(complaints(result)), 1)

            started = serve(3, f"state.directory={folder}/next", f"value.path={out}", "value.warmup_steps=0")
            self.assertEqual(started.returncode, 0, started.stderr)
            first = json.loads(started.stdout.splitlines()[0])
            self.assertNotEqual(first["explained_variance"], 0)
            missing = serve(3, f"state.directory={folder}/none", f"value.path={folder}/none")
            self.assertEqual(missing.returncode, 1)
            self.assertIn("value.path", complaints(missing)[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
