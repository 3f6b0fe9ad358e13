#!/usr/bin/env python3
"""The service trains from its own traffic, ends after the steps asked for, and every trajectory is accounted for."""
import json
import math
import unittest

from service import ROOT, Service, TINY, complaints, millrace

NUMBERS = ["policy_version", "reward_mean", "lag_mean", "lag_max", "masked_share", "entropy",
           "generated_tokens_per_second", "trained_tokens_per_second", "step_seconds", "resident_bytes"]


def setting(*names):
    value = json.loads(millrace("config", "show", ROOT / TINY, "--json").stdout)
    for name in names:
        value = value[name]
    return value


class Serve(unittest.TestCase):
    def test_five_steps(self):
        with Service("--steps", "5") as service:
            self.assertEqual(service.wait(), 0, service.log())
            steps = service.steps()
            rows = json.loads(millrace("trajectories", "--state-dir", service.state, "--limit", 1000,
                                       "--json").stdout)["trajectories"]
        self.assertEqual([step["policy_version"] for step in steps], [1, 2, 3, 4, 5])
        max_lag = setting("max_lag")
        for step in steps:
            for name in NUMBERS:
                self.assertTrue(math.isfinite(step[name]), f"{name}: {step[name]}")
            self.assertIn("explained_variance", step)
            self.assertTrue(0 <= step["reward_mean"] <= 1, step)
            self.assertTrue(0 <= step["lag_mean"] <= step["lag_max"] <= max_lag, step)
            self.assertTrue(0 <= step["masked_share"] <= 1, step)
            self.assertGreater(step["trained_tokens_per_second"], 0)
            self.assertGreater(step["resident_bytes"], 1 << 20)

        # The ledger outlives the service: five batches trained, each by the version that published it.
        batch = setting("batch")
        trained = [row for row in rows if row["outcome"] == "trained"]
        self.assertEqual(sorted(row["version"] for row in trained), [v for v in range(1, 6) for _ in range(batch)])
        for row in trained:
            self.assertLessEqual(row["version"] - 1 - row["policy_version_oldest"], max_lag)

    def test_memory_stays_flat(self):
        with Service() as service:
            for steps in (50, 100):
                service.wait_for_steps(steps)
            resident = [step["resident_bytes"] for step in service.steps()]
        self.assertLess(resident[99] / resident[19], 1.05)  # 1.02 from step 20 to 200, with jemalloc's coming and going

    def test_status_accounts_for_every_trajectory(self):
        with Service() as service:
            service.wait_for_steps(3)
            status = json.loads(service.command("status", "--json").stdout)
            readable = service.command("status").stdout
        counts = status["trajectories"]
        self.assertEqual(counts["accepted"], counts["trained"] + counts["queued"] + counts["rejected"])
        self.assertGreaterEqual(counts["trained"], 3 * setting("batch"))
        self.assertGreaterEqual(status["policy_version"], 3)
        self.assertEqual(status["reward_spec"], {"name": setting("reward", "spec"), "version": 1})
        self.assertRegex(readable, r"policy_version: \d+")

    def test_trajectories_by_state(self):
        with Service() as service:
            service.wait_for_steps(1)
            result = service.command("trajectories", "--state", "trained", "--limit", 4, "--json")
        rows = json.loads(result.stdout)["trajectories"]
        self.assertEqual(len(rows), 4)
        self.assertEqual({row["outcome"] for row in rows}, {"trained"})
        self.assertEqual(sorted((row["id"] for row in rows), reverse=True), [row["id"] for row in rows])

    def test_chat_while_it_trains(self):
        with Service("--set", "model.max_context=600") as service:
            result = service.command("chat", "--json", stdin="hello\n\nand you?\n/new\nhello\n/quit\nnever sent\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        answers = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(len(answers), 3)
        prompts = [answer["usage"]["prompt_tokens"] for answer in answers]
        self.assertGreater(prompts[1], prompts[0], "the second question carries the first one and its answer")
        self.assertEqual(prompts[2], prompts[0], "/new starts over")

    def test_chat_beyond_the_context(self):
        with Service() as service:
            result = service.command("chat", "--json", stdin="x" * 200 + "\nhello\n")
        self.assertEqual((result.returncode, len(complaints(result))), (1, 1), result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 1, "the message after the refused one is answered")


if __name__ == "__main__":
    unittest.main(verbosity=2)
