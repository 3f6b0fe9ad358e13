#!/usr/bin/env python3
"""Scores the answers of a ledger again, in an implementation of its own, and compares: are the service's rewards right?

    tests/bench/rescore.py state/quickstart [--rewards config/rewards]

Prints the mean reward of each policy version's batch and the largest difference. Exit code 1 where one is above 1e-6.
"""
import argparse
import collections
import json
import math
import re
import sqlite3
import sys
from pathlib import Path

TOLERANCE = 1e-6
COMMENT_OR_STRING = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
# In bytes \w, \d and lower() are ASCII, whatever the answer's language.
DIGITS = rb"(?:(?:\d{1,3}(?!\d)(?:,\d{3}(?!\d))*|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
NUMBER = re.compile(rb"[-+]?" + DIGITS)
NUMBER_IN_TEXT = re.compile(rb"(?:(?<![\w)])[-+])?" + DIGITS)


def read_spec(file):
    text = COMMENT_OR_STRING.sub(lambda match: match[0] if match[0].startswith('"') else " ", file.read_text())
    return json.loads(text)


def words_of(answer):
    return re.findall(rb"[a-z']+", answer.lower())


def style_words(part, answer, _):
    words = set(words_of(answer))
    entries = [entry.encode() for entry in part["words"]]
    n = sum(entry in words if words_of(entry) else entry in answer for entry in entries)
    return 1 - math.exp(-n / 2)


def repetition(part, answer, _):
    words = words_of(answer)
    return max(0, 1 - len(set(words)) / len(words) - part["above"]) if words else 0


def letter_share(part, answer, _):
    return sum(byte in part["letters"].encode() for byte in answer) / len(answer) if answer else 0


def number_of(text):
    """None where the text is no number, or one that a double cannot hold (1e999, 1e-999)."""
    value = float(text.replace(b",", b"")) if NUMBER.fullmatch(text) else math.inf
    lost = value == 0 and re.match(rb"[-+0,.]*[1-9]", text)
    return None if lost or math.isinf(value) else value


def exact_answer(_, answer, expected):
    right = expected.strip(b" \t\r\n")
    if not right:
        return 0
    value = number_of(right)
    if value is None:
        return float(answer.strip(b" \t\r\n").split(b"\n")[-1].strip(b" \t\r\n") == right)
    numbers = NUMBER_IN_TEXT.findall(answer)
    return float(bool(numbers) and number_of(numbers[-1]) == value)


KINDS = {function.__name__: function for function in (style_words, repetition, letter_share, exact_answer)}


def score(spec, answer, expected):
    return sum(part["weight"] * KINDS[part["kind"]](part, answer, expected) for part in spec["parts"])


def read_ledger(file):
    """Rows with a score: id, answer, expected, reward, reward_spec, state, version. Texts are bytes."""
    database = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    database.text_factory = bytes
    return database.execute("select id, answer, expected, reward, reward_spec, state, version from trajectories "
                            "where reward_spec != '' and reward is not null order by id").fetchall()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("state", type=Path, help="state folder of a service, with ledger.sqlite in it")
    parser.add_argument("--rewards", type=Path, default=Path(__file__).resolve().parents[2] / "config/rewards")
    arguments = parser.parse_args()
    ledger = arguments.state / "ledger.sqlite"
    if not ledger.exists():
        sys.exit(f"{ledger}: not there: expected the state folder of a service, like state/quickstart")

    specs, largest, worst = {}, 0.0, None
    batches = collections.defaultdict(list)  # policy version -> rewards of the trajectories it was trained on
    rows = read_ledger(ledger)
    for identity, answer, expected, reward, spec_name, state, version in rows:
        name = spec_name.decode()
        if name not in specs:
            file = arguments.rewards / f"{name}.json"
            if not file.exists():
                sys.exit(f"trajectory {identity} was scored by {name}: no {file} to score it again")
            specs[name] = read_spec(file)
        difference = abs(score(specs[name], answer, expected) - reward)
        if difference > largest:
            largest, worst = difference, identity
        if state == b"trained":
            batches[version].append(reward)
    if not rows:
        sys.exit(f"{ledger}: no scored trajectory in it")

    print("version  trajectories  reward_mean")
    for version, rewards in sorted(batches.items()):
        print(f"{version:7d}  {len(rewards):12d}  {sum(rewards) / len(rewards):11.4f}")
    print(f"{len(rows)} answers scored again, largest difference {largest:.3g}"
          + (f" (trajectory {worst})" if worst is not None else ""))
    sys.exit(1 if largest > TOLERANCE else 0)


if __name__ == "__main__":
    main()
