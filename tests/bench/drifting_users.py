#!/usr/bin/env python3
"""Recipes under users whose taste drifts, as clients of the public API: who follows them how well?

    drifting_users.py [--recipes sao,running_mean] [--seeds 2] [--rounds 240] [--set loss.kl_weight=0.05]

Every round each of eight users chats once and rates the answer by its share of the letters it likes. A third of the rounds
all like the first set, then one user after the other changes over to the second set, in the last third all like that one.
Prints a table: mean rating before the drift, at its end, and at the very end; rounds until it is back at 0.9 of before.
"""
import argparse
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from rating_clients import LIVE, VOWELS, ask_and_rate, share  # noqa: E402
from service import Service, wait_until  # noqa: E402

USERS = 8
TASTES = (VOWELS, "bcdfg")


def taste_of(user, round_, rounds):
    """Users change over evenly through the middle third."""
    changes_at = rounds / 3 + (user + 0.5) / USERS * rounds / 3
    return TASTES[round_ >= changes_at]


def run(recipe, seed, rounds, sets):
    settings = (*LIVE, f"recipe={recipe}", f"seed={seed}", *sets)
    with Service(*(word for value in settings for word in ("--set", value))) as service:
        means = []
        for round_ in range(rounds):
            rewards = []
            for user in range(USERS):
                likes = taste_of(user, round_, rounds)
                rewards.append(ask_and_rate(service, f"user-{user}", lambda text: share(text, likes))[1])
            means.append(sum(rewards) / USERS)
            wait_until(lambda: service.metric("millrace_live_lessons") == 0, "ratings get their permits", 60)
        return means


def summary(means):
    third = len(means) // 3
    before = statistics.mean(means[third - 5:third])
    smooth = [statistics.mean(means[max(0, i - 4):i + 1]) for i in range(len(means))]
    back = next((i - 2 * third for i in range(2 * third, len(means)) if smooth[i] >= 0.9 * before), None)
    return {"before": round(before, 3), "end_of_drift": round(statistics.mean(means[2 * third - 5:2 * third]), 3),
            "end": round(statistics.mean(means[-5:]), 3), "rounds_until_back": back}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", default="sao,running_mean")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=240)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    results = []
    for recipe in arguments.recipes.split(","):
        for seed in range(arguments.seeds):
            means = run(recipe, seed, arguments.rounds, arguments.sets)
            results.append({"recipe": recipe, "seed": seed, **summary(means), "rounds": [round(mean, 3) for mean in means]})
            print(json.dumps({key: value for key, value in results[-1].items() if key != "rounds"}), flush=True)
    if arguments.json:
        Path(arguments.json).write_text("\n".join(json.dumps(result) for result in results) + "\n")


if __name__ == "__main__":
    main()
