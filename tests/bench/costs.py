#!/usr/bin/env python3
"""Do costs grow linearly? Alone on the machine, or the figures mean nothing.

context: seconds of a decode step of SmolLM2 over contexts of 64 to 4,096 tokens, five rounds in turns; how far each median
lies from the straight line through all of them, and what a token of context costs.
conversations: a service on the tiny model with 1, 1,000 and 10,000 conversations that have had an answer and may go on:
memory for each, permits they hold, and how fast one more client is served, five windows in turns with a service that has none.
"""
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))
from service import PROGRAM, Service  # noqa: E402

CONTEXTS = (64, 512, 1024, 2048, 3072, 4096)
ROUNDS = 5


def decode_step(context):
    """Milliseconds with four turns, over `context` tokens on average."""
    result = subprocess.run([PROGRAM, "bench", "generate", "--json", "--batch", "4", "--prompt", str(context - 16),
                             "--tokens", "32"], cwd=ROOT, capture_output=True, text=True, check=True)
    figures = {entry["name"]: entry["value"] for entry in map(json.loads, result.stdout.splitlines())}
    return figures["decode_step"]


def context():
    seen = {length: [] for length in CONTEXTS}
    for _ in range(ROUNDS):
        for length in CONTEXTS:
            seen[length].append(decode_step(length))
    medians = [statistics.median(seen[length]) for length in CONTEXTS]
    slope, start = statistics.linear_regression(CONTEXTS, medians)
    return {"decode_step_ms": dict(zip(CONTEXTS, (round(median, 2) for median in medians))),
            "ms_for_1000_tokens_of_context": round(1000 * slope / 4, 3), "ms_without": round(start, 2),
            "farthest_from_the_line": round(max(abs(median / (start + slope * length) - 1)
                                                for length, median in zip(CONTEXTS, medians)), 3)}


def ask(service, words, client):
    status, _, body = service.http("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": words}], "max_tokens": 8}, {"x-millrace-client": client})
    assert status == 200, body


def answers_a_second(service):
    begun, count = time.monotonic(), 100
    for i in range(count):
        ask(service, f"probe {i} {begun}", "probe")
    return count / (time.monotonic() - begun)


def conversations(count):
    with Service("--no-learn") as empty, Service("--no-learn") as full, ThreadPoolExecutor(8) as pool:
        for service in (empty, full):
            answers_a_second(service)
        memory = lambda: full.metric("process_resident_memory_bytes")
        before = memory()
        list(pool.map(lambda i: ask(full, f"hello {i}", f"client-{i}"), range(count)))
        grown = memory() - before
        windows = [(answers_a_second(empty), answers_a_second(full)) for _ in range(ROUNDS)]
        with_none, with_all = (statistics.median(column) for column in zip(*windows))
        return {"conversations": count, "KiB_for_each": round(grown / count / 1024, 2),
                "permits_held": int(full.metric('millrace_sessions{state="running"}')),
                "answers_a_second": {"with_none": round(with_none, 1), "with_all": round(with_all, 1)},
                "slower_by": round(1 - with_all / with_none, 3)}


if __name__ == "__main__":
    print(json.dumps({"context": context()}), flush=True)
    for number in (1, 1000, 10000):
        print(json.dumps(conversations(number)), flush=True)
