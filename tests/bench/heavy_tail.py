#!/usr/bin/env python3
"""An environment with heavy-tailed episodes (environment.name = "process"): the number of turns is log-normal with sigma
1.5 and median 2, at most 24, and after each turn a tool takes so many seconds.

    environment.command = "python3 tests/bench/heavy_tail.py 0.03"
"""
import json
import random
import sys
import time


def main():
    tool_seconds = float(sys.argv[1])
    turns = 0
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "reset":
            turns = min(24, max(1, round(random.Random(message["episode"]).lognormvariate(0.693, 1.5))))
            answer = {"prompt": "Go on."}
        else:
            time.sleep(tool_seconds)
            turns -= 1
            answer = {"observation": ".", "terminated": turns <= 0, "truncated": False}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
