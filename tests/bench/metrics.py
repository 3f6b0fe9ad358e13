#!/usr/bin/env python3
"""What GET /metrics costs with 100 and with 10,000 live sessions: lines and milliseconds (median and slowest of 50)."""
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from service import Service, wait_until  # noqa: E402


def measure(sessions):
    """A random model of one layer, and answers long enough that all sessions are alive at once."""
    settings = (f"sessions.limit={sessions}", "batch=10000", "min_batch=10000", "model.random.layers=1",
                "model.random.hidden=16", "model.random.heads=2", "model.random.kv_heads=1", "generation.max_tokens=64")
    with Service(*(word for value in settings for word in ("--set", value))) as service:
        name = 'millrace_sessions{state="running"}'
        wait_until(lambda: service.metric(name) >= 0.95 * sessions, f"{sessions} sessions", 300)
        times, lines = [], 0
        for _ in range(50):
            start = time.monotonic()
            lines = len(service.http("GET", "/metrics")[2].splitlines())
            times.append(1000 * (time.monotonic() - start))
        return {"sessions": int(service.metric(name)), "lines": lines, "median_ms": round(statistics.median(times), 1),
                "slowest_ms": round(max(times), 1)}


if __name__ == "__main__":
    for count in (100, 10000):
        print(json.dumps(measure(count)), flush=True)
