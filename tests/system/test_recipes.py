#!/usr/bin/env python3
"""Every recipe runs from its name in the config to published versions, through the same service."""
import json
import math
import subprocess
import tempfile
import unittest
from pathlib import Path

from service import PROGRAM, ROOT, TINY, millrace

RECIPES = ("sao", "grpo", "grpo_dis", "vapo", "dapo", "gspo", "decoupled_ppo", "running_mean")
GROUP = 4
SINGLE = ("sao", "running_mean")
WITH_CRITIC = ("sao", "vapo")
STEPS = 10


def setting(recipe, *names):
    value = json.loads(millrace("config", "show", ROOT / TINY, "--set", f"recipe={recipe}", "--json").stdout)
    for name in names:
        value = value[name]
    return value


def run_recipe(recipe, *sets, steps=STEPS):
    """The objects it printed, one a policy step, and its ledger's rows."""
    with tempfile.TemporaryDirectory(prefix="millrace-test-") as folder:
        state = Path(folder) / "state"
        arguments = [PROGRAM, "serve", TINY, "--json", "--steps", str(steps)]
        for entry in (f"recipe={recipe}", "http.port=0", f"state.directory={state}", *sets):
            arguments += ["--set", entry]
        result = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        if result.returncode != 0:
            raise AssertionError(f"{recipe}: exit code {result.returncode}: {result.stderr}")
        rows = json.loads(millrace("trajectories", "--state-dir", state, "--limit", 10000, "--json").stdout)
    return [json.loads(line) for line in result.stdout.splitlines()], rows["trajectories"]


class Recipes(unittest.TestCase):
    def test_all_eight(self):
        for recipe in RECIPES:
            with self.subTest(recipe):
                self.check(recipe)

    def check(self, recipe):
        steps, rows = run_recipe(recipe)
        self.assertEqual([step["policy_version"] for step in steps], list(range(1, STEPS + 1)))
        for step in steps:
            for name in ("reward_mean", "entropy", "kl", "policy_gradient_norm", "ratio_median", "masked_share"):
                self.assertTrue(math.isfinite(step[name]), f"{name}: {step[name]}")
            self.assertLessEqual(step["lag_max"], 4)
            if recipe not in WITH_CRITIC:
                self.assertIsNone(step["explained_variance"])
        # Groups whose members all get the same reward, often 0 at first, teach nothing.
        self.assertTrue(any(step["policy_gradient_norm"] > 0 for step in steps))
        self.assertEqual(any(step["value_loss"] > 0 for step in steps), recipe in WITH_CRITIC)

        # A batch holds whole groups, and its members' ids are neighbours.
        size = setting(recipe, "grouping", "size")
        self.assertEqual(size, 1 if recipe in SINGLE else GROUP)
        trained = [row for row in rows if row["outcome"] == "trained"]
        versions = {}
        for row in trained:
            versions.setdefault((row["id"] - 1) // size, set()).add(row["version"])
        self.assertEqual({len(seen) for seen in versions.values()}, {1}, "a group is trained in one step")
        skipped = [row for row in rows if row["outcome"] == "skipped"]
        self.assertEqual(bool(skipped), recipe in WITH_CRITIC, "value-only steps are the critic's")


class Models(unittest.TestCase):
    def test_mixture_of_experts(self):
        steps, _ = run_recipe("sao", "model.random.experts=4", "model.random.intermediate=32")
        self.assertEqual([step["policy_version"] for step in steps], list(range(1, STEPS + 1)))
        for step in steps:
            for name in ("reward_mean", "entropy", "policy_gradient_norm", "value_loss"):
                self.assertTrue(math.isfinite(step[name]), f"{name}: {step[name]}")
            self.assertGreater(step["policy_gradient_norm"], 0)

    def test_rollouts_of_a_quantised_copy_teach(self):
        steps, _ = run_recipe("sao", "generation.dtype=int8", steps=30)
        rewards = [step["reward_mean"] for step in steps]
        self.assertGreater(sum(rewards[-5:]) / 5, 3 * sum(rewards[:3]) / 3, rewards)
        self.assertLess(max(step["masked_share"] for step in steps[:3]), 0.5)


class Pacing(unittest.TestCase):
    def test_sync(self):
        """With one update a batch every ratio is 1 and the clip idle; with mini-batches it is not."""
        steps, _ = run_recipe("grpo", "pacing=sync")
        for step in steps:
            self.assertEqual(step["lag_max"], 0)
            self.assertEqual(step["masked_share"], 0)
            self.assertAlmostEqual(step["ratio_high"], 1, places=1)
        steps, _ = run_recipe("grpo", "pacing=sync", "loss.mini_batches=4", "policy.lr=0.01")
        self.assertGreater(max(step["ratio_high"] for step in steps), 1.05)

    def test_lockstep(self):
        steps, _ = run_recipe("sao", "pacing=lockstep")
        self.assertLessEqual(max(step["lag_max"] for step in steps), 1)


class Evaluation(unittest.TestCase):
    def test_on_tasks_that_are_not_trained(self):
        steps, rows = run_recipe("running_mean", "evaluation.every=2", "evaluation.tasks=5")
        seen = {step["evaluation"]["version"]: step["evaluation"] for step in steps if step["evaluation"]}
        self.assertTrue(seen, "within ten versions one was finished")
        self.assertIsNone(steps[0]["evaluation"])
        for version, evaluation in seen.items():
            self.assertEqual(version % 2, 0)
            self.assertEqual((evaluation["tasks"], evaluation["failed"]), (5, 0))
            self.assertTrue(0 <= evaluation["reward_mean"] <= 1)
            self.assertGreater(evaluation["perplexity"], 1)
            self.assertTrue(0 < evaluation["distinct_bigrams"] <= 1)
            self.assertTrue(1 <= evaluation["length_mean"] <= 16)
            self.assertTrue(math.isfinite(evaluation["kl"]))
        self.assertLess(max(row["id"] for row in rows), 1 << 40, "its trajectories are in no ledger")


if __name__ == "__main__":
    unittest.main(verbosity=2)
