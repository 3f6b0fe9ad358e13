#!/usr/bin/env python3
"""Makes any Gymnasium environment with discrete actions an environment of Millrace (environment.name = "process").

    environment.command = "python3 deploy/bridges/gymnasium_bridge.py FrozenLake-v1 is_slippery=false"

JSON lines on stdin and stdout, as runtime/environments/process.hpp has them. The policy reads observations as text and
answers with the number of an action; an answer without one is no move, and the policy is told so.
"""
import json
import re
import sys

import gymnasium


def to_text(observation, environment):
    """What the policy reads: the environment's own drawing, if it makes one of text, else the numbers."""
    drawing = environment.render() if environment.render_mode == "ansi" else None
    if isinstance(drawing, str):
        return re.sub(r"\x1b\[\d+m", "", drawing.replace("\x1b[41m", "*")).strip()
    return json.dumps(observation.tolist() if hasattr(observation, "tolist") else observation, default=str)


def make(name, arguments):
    """The environment, drawing itself as text where it can; arguments are KEY=JSON."""
    options = {key: json.loads(value) for key, value in (argument.split("=", 1) for argument in arguments)}
    modes = gymnasium.spec(name).entry_point and gymnasium.make(name, **options).metadata.get("render_modes", [])
    return gymnasium.make(name, **options, **({"render_mode": "ansi"} if "ansi" in modes else {}))


def main():
    environment = make(sys.argv[1], sys.argv[2:])
    space = environment.action_space
    assert isinstance(space, gymnasium.spaces.Discrete), "only discrete actions can be written as one number"
    first, last = int(space.start), int(space.start + space.n - 1)
    hint = f"Answer with the number of an action, {first} to {last}."
    for line in sys.stdin:
        message = json.loads(line)
        try:
            if message["type"] == "reset":
                observation, _ = environment.reset(seed=message["episode"] % 2**31)
                answer = {"prompt": f"{to_text(observation, environment)}\n{hint}"}
            else:
                number = re.search(r"-?\d+", message["action"])
                if number and first <= int(number.group()) <= last:
                    observation, reward, terminated, truncated, _ = environment.step(int(number.group()))
                    answer = {"observation": to_text(observation, environment), "reward": float(reward),
                              "terminated": bool(terminated), "truncated": bool(truncated)}
                else:
                    answer = {"observation": hint, "terminated": False, "truncated": False}
        except Exception as error:  # whatever the environment raises: the session fails, the bridge goes on
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
