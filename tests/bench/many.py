#!/usr/bin/env python3
"""As many tiny trajectories as a service can take in ten minutes (or `many.py SECONDS`), with retention on: does memory
grow, does the ledger, does it slow down? Counted from when the ledger is full and retention at work. Prints one JSON
object; about a tenth of a token pass each, so what is measured is everything around the model."""
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from service import Service, wait_until

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 600
WINDOWS = 20
SETS = {"recipe": "running_mean", "model.random.hidden": 16, "model.random.layers": 1, "model.random.heads": 2,
        "model.random.kv_heads": 1, "model.random.intermediate": 16, "model.max_context": 64, "generation.max_tokens": 1,
        "generation.dtype": "float32", "policy.dtype": "float32", "batch": 256, "min_batch": 256, "pack": 128,
        "sessions.limit": 256, "checkpoint.every_steps": 20, "state.keep_mb": 32, "threads": 1}


def main():
    sets = [word for key, value in SETS.items() for word in ("--set", f"{key}={value}")]
    with Service(*sets) as service:
        ledger = lambda: sum(path.stat().st_size for path in service.state.glob("ledger.sqlite*"))
        wait_until(lambda: ledger() > SETS["state.keep_mb"] * 2**20, "the ledger is full", 300)
        look = lambda: {"time": time.monotonic(), "accepted": service.status()["trajectories"]["accepted"],
                        "resident": service.metric("process_resident_memory_bytes"), "ledger": ledger()}
        marks = [look()]
        for window in range(1, WINDOWS + 1):
            time.sleep(max(0, marks[0]["time"] + window * SECONDS / WINDOWS - time.monotonic()))
            marks.append(look())
        counts = service.status()["trajectories"]
        rows = len(service.trajectories())
        service.stop()
    rates = [(b["accepted"] - a["accepted"]) / (b["time"] - a["time"]) for a, b in zip(marks, marks[1:])]
    first, last = statistics.median(rates[:5]), statistics.median(rates[-5:])
    half = marks[WINDOWS // 2]["resident"]
    print(json.dumps({
        "seconds": SECONDS, "trajectories": counts, "adds up": counts["accepted"] == counts["trained"] + counts["queued"] +
        counts["rejected"], "rows shown": rows, "a second, first five windows": round(first, 1),
        "a second, last five windows": round(last, 1), "slower by": round(1 - last / first, 4), "a second": [round(rate) for rate in rates],
        "memory growth in the second half": round(marks[-1]["resident"] / half - 1, 4),
        "resident MiB": [round(mark["resident"] / 2**20, 1) for mark in marks],
        "ledger MiB": [round(mark["ledger"] / 2**20, 1) for mark in marks]}))


if __name__ == "__main__":
    main()
