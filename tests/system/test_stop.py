#!/usr/bin/env python3
"""Signals end the service in order: exit code 0, nothing accepted is lost, the state can be used again."""
import json
import shutil
import signal
import tempfile
import time
import unittest
from pathlib import Path

from service import Service, millrace, wait_until

HANGING = """while read -r line; do
  case $line in
    *reset*) echo '{{"prompt": "Go on."}}' ;;
    *) while [ -e {hang} ]; do touch {hangs}; sleep 0.1; done
       echo '{{"observation": ".", "reward": 1, "terminated": true, "truncated": false}}' ;;
  esac
done
"""


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

    def check_all_trained(self, *sets):
        """B28: SIGTERM at some moment; what had been accepted by then is learned from by the next service, exactly once."""
        folder = Path(tempfile.mkdtemp(prefix="millrace-test-"))
        self.addCleanup(shutil.rmtree, folder)
        sets = [word for value in sets for word in ("--set", value)]
        with Service(*sets, state=folder / "state") as service:
            if "value.warmup_steps=1000" not in sets:
                service.wait_for_steps(3)
            wait_until(lambda: service.status()["trajectories"]["queued"] > 0, "some wait")
            begun = time.monotonic()
            self.check_ends_in_order(service, signal.SIGTERM)
            self.assertLess(time.monotonic() - begun, 25, "within drain.grace_s")
        rows = lambda: {row["id"]: row for row in json.loads(
            millrace("trajectories", "--state-dir", folder / "state", "--limit", 100000, "--json").stdout)["trajectories"]}
        accepted = rows()
        waiting = {number for number, row in accepted.items() if row["outcome"] == "queued"}
        with Service("--set", "value.warmup_steps=0", state=folder / "state") as service:
            wait_until(lambda: not any(row["outcome"] == "queued" for number, row in rows().items() if number in waiting),
                       "what waited has an end")
            self.assertEqual(service.stop(), 0)
        after = rows()
        for number, row in accepted.items():
            ends = ("trained", "skipped") if number in waiting else (row["outcome"],)  # skipped: by the critic's warm-up
            self.assertIn(after[number]["outcome"], ends, after[number])

    def test_while_training(self):
        self.check_all_trained()

    def test_while_writing_checkpoints(self):
        self.check_all_trained("checkpoint.every_steps=1")

    def test_while_evaluating(self):
        self.check_all_trained("evaluation.every=1", "evaluation.tasks=8")

    def test_while_the_critic_warms_up(self):
        self.check_all_trained("value.warmup_steps=1000")

    def test_the_second_signal_ends_it_at_once(self):
        folder = Path(tempfile.mkdtemp(prefix="millrace-test-"))
        self.addCleanup(shutil.rmtree, folder)
        # A drain waits for the sessions that run: these hang while there is a file.
        hang, hangs = folder / "hang", folder / "hangs"
        script = folder / "environment.sh"
        script.write_text(HANGING.format(hang=hang, hangs=hangs))
        sets = [word for value in ("environment.name=process", f"environment.command=sh {script}",
                                   "reward.spec=environment", "checkpoint.every_steps=2") for word in ("--set", value)]
        with Service(*sets, state=folder / "state") as service:
            service.wait_for_steps(4)
            hang.touch()
            wait_until(hangs.exists, "a session that hangs")
            begun = time.monotonic()
            while service.process.poll() is None and time.monotonic() - begun < 20:
                service.process.send_signal(signal.SIGTERM)  # two that come before the first is read are one
                time.sleep(0.01)
            self.assertNotEqual(service.process.wait(1), 0)
            self.assertLess(time.monotonic() - begun, 3)
        hang.unlink()
        with Service(*sets, "--steps", "1", state=folder / "state") as service:
            self.assertIn("goes on from checkpoint", service.log())
            self.assertEqual(service.wait(), 0, service.log())


if __name__ == "__main__":
    unittest.main(verbosity=2)
