#!/usr/bin/env python3
"""SmolLM2: what a checkpoint costs whoever is being answered, and how long after SIGKILL a service answers again. Prints
one JSON object; about two minutes."""
import http.client
import json
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from service import Service, wait_until

QUICKSTART = "config/presets/quickstart.json"


def stream(service, times, until):
    """Asks for one long answer after the other and notes when each of their tokens comes."""
    while not until.is_set():
        connection = http.client.HTTPConnection(service.address, timeout=60)
        connection.request("POST", "/v1/completions", json.dumps(
            {"prompt": "The sea", "max_tokens": 200, "stream": True, "seed": len(times)}),
            {"Content-Type": "application/json"})
        response = connection.getresponse()
        mine = []
        while not until.is_set() and (line := response.readline()):
            if line.startswith(b"data: {"):
                mine.append(time.monotonic())
        times.append(mine)
        connection.close()


def gaps(times, begin, end):
    """Seconds between tokens of one answer, of those that lie at least partly between begin and end."""
    return [b - a for answer in times for a, b in zip(answer, answer[1:]) if b > begin and a < end]


def summary(seconds):
    return {"tokens": len(seconds), "median": round(statistics.median(seconds), 4), "max": round(max(seconds), 4)}


def main():
    with tempfile.TemporaryDirectory(prefix="millrace-test-") as folder:
        state = Path(folder) / "state"
        sets = ("--set", "checkpoint.every_steps=100000")
        with Service(*sets, config=QUICKSTART, state=state) as service:
            wait_until(lambda: len(service.steps()) >= 1, "a policy step", 300)
            times, until = [], threading.Event()
            asker = threading.Thread(target=stream, args=(service, times, until))
            begun = time.monotonic()
            asker.start()
            time.sleep(25)
            before = time.monotonic()
            made = json.loads(service.command("checkpoint", "--json").stdout)
            after = time.monotonic()
            time.sleep(15)
            until.set()
            asker.join()
            size = sum(path.stat().st_size for path in (state / "checkpoints").rglob("*") if path.is_file())
            result = {"checkpoint bytes": size, "seconds from the call to its answer": round(after - before, 2),
                      "seconds of writing": round(service.metric("millrace_checkpoint_duration_seconds_sum"), 2),
                      "seconds between tokens before it": summary(gaps(times, begun, before)),
                      "while it was made": summary(gaps(times, before, after))}
            service.process.send_signal(signal.SIGKILL)
            killed = time.monotonic()
            service.process.wait()
        with Service(*sets, config=QUICKSTART, state=state) as service:
            wait_until(lambda: service.http("GET", "/readyz")[0] == 200, "ready")
            result["SIGKILL to ready, seconds"] = round(time.monotonic() - killed, 2)
            service.http("POST", "/v1/completions", {"prompt": "The sea", "max_tokens": 1})
            result["SIGKILL to an answer, seconds"] = round(time.monotonic() - killed, 2)
            assert f"goes on from checkpoint {made['checkpoint']}" in service.log()
        print(json.dumps(result))


if __name__ == "__main__":
    main()
