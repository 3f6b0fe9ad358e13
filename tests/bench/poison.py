#!/usr/bin/env python3
"""One client floods the service with bad feedback: how far does it move the policy?

    poison.py [--rounds 150] [--set live.client_limit=150] [--max-reward 1] [--flood 40] [--json FILE]

Eight honest clients rate answers by their share of vowels; the attacker asks --flood times as often a round as one of them
and rates by the share of consonants, always as loud as it may. Prints the mean share of vowels in the honest clients'
answers, round by round, and who has taught how much.
"""
import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from rating_clients import LIVE, ask_and_rate, share  # noqa: E402
from service import Service, wait_until  # noqa: E402

HONEST = 8


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--flood", type=int, default=40)
    parser.add_argument("--max-reward", type=float, default=10)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    settings = (*LIVE, f"live.max_reward={arguments.max_reward}", *arguments.sets)
    options = [word for value in settings for word in ("--set", value)]
    with Service(*options) as service, ThreadPoolExecutor(8) as pool:
        means = []
        for _ in range(arguments.rounds):
            attack = [pool.submit(ask_and_rate, service, "mallory", lambda text: arguments.max_reward * (1 - 2 * share(text)))
                      for _ in range(arguments.flood)]
            honest = [pool.submit(ask_and_rate, service, f"client-{i}", share) for i in range(HONEST)]
            means.append(sum(share(one.result()[0]) for one in honest) / HONEST)
            for one in attack:
                one.result()
        wait_until(lambda: service.metric("millrace_live_lessons") == 0, "no rating waits for a permit", 300)
        trained = service.status()["trajectories"]["trained"]
    result = {"set": arguments.sets, "max_reward": arguments.max_reward, "flood": arguments.flood,
              "first_5_rounds": round(sum(means[:5]) / 5, 3),
              "last_5_rounds": round(sum(means[-5:]) / 5, 3), "trained": trained,
              "rounds": [round(mean, 3) for mean in means]}
    print(json.dumps(result))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
