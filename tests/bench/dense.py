#!/usr/bin/env python3
"""An environment of four turns (environment.name = "process"): each answer earns a quarter of its share of vowels, paid at
once or all of it after the last one. Each observation has so many letters.

    environment.command = "python3 tests/bench/dense.py at_once|at_the_end LETTERS"
"""
import json
import sys

TURNS = 4


def main():
    at_once, letters = sys.argv[1] == "at_once", int(sys.argv[2])
    turn = earned = 0
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "reset":
            turn = earned = 0
            answer = {"prompt": "Go on."}
        else:
            turn += 1
            action = message["action"]
            share = sum(letter in "aeiou" for letter in action.lower()) / max(1, len(action)) / TURNS
            earned += share
            reward = share if at_once else earned if turn == TURNS else 0
            answer = {"observation": "." * letters, "reward": reward, "terminated": turn == TURNS, "truncated": False}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
