#!/usr/bin/env python3
"""Users whose taste drifts, as clients of the public API of the service at $MILLRACE_ADDRESS: traffic for `millrace compare`.

    millrace compare config/presets/tiny.json --recipes sao,running_mean --seeds 2 --steps 100000 \\
        --set environment.name=live --set value.warmup_steps=0 --set batch=8 --set min_batch=4 --set max_wait_s=2 \\
        --set loss.kl_weight=0.03 --traffic "python3 tests/bench/drifting_users.py"

Every round each of eight users chats once and rates the answer by its share of the letters it likes. A third of the rounds
all like the first set, then one user after the other changes over to the second set, in the last third all like that one.
Prints (in each run's traffic.txt) the mean rating before the drift, at its end, and at the very end; how many rounds it took to
be back at 0.9 of before; and all rounds.
"""
import argparse
import json
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from rating_clients import VOWELS, ask_and_rate, share  # noqa: E402
from service import Client, wait_until  # noqa: E402

USERS = 8
TASTES = (VOWELS, "bcdfg")


def taste_of(user, round_, rounds):
    """Users change over evenly through the middle third."""
    changes_at = rounds / 3 + (user + 0.5) / USERS * rounds / 3
    return TASTES[round_ >= changes_at]


def mean_ratings(service, rounds):
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
            "end": round(statistics.mean(means[-5:]), 3), "rounds_until_back": back,
            "rounds": [round(mean, 3) for mean in means]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=240)
    arguments = parser.parse_args()
    print(json.dumps(summary(mean_ratings(Client(os.environ["MILLRACE_ADDRESS"]), arguments.rounds))))


if __name__ == "__main__":
    main()
