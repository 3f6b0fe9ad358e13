#!/usr/bin/env python3
"""Applications at the door, open loop: conversations begin when they begin, whether the service keeps up or not. Three of
ten clients misbehave: they hang up in the middle of an answer, never rate it, rate it twice, contradict themselves, or
name answers that never were. Then every rating that was taken is looked for in the ledger.

    live_load.py --rate 5 --seconds 60 [--no-learn] [--set live.priority=0] [--json FILE]

starts a service of its own on the tiny preset (--config for another), prints latency as clients see it, and what became
of the ratings. --rate 0 measures how many answers a second the service gives to 16 clients that ask on and on.
"""
import argparse
import asyncio
import json
import random
import sqlite3
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from service import Service, wait_until  # noqa: E402

TURNS = 2  # of a conversation


async def call(address, method, target, body=None, on_message=None, client=""):
    """Status, headers and body of one call on a connection of its own; `on_message` gets each message of a stream and
    hangs up by returning False."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        data = b"" if body is None else json.dumps(body).encode()
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nX-Millrace-Client: {client}\r\n"
                     f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        status = int(head[0].split()[1])
        if on_message is None or "event-stream" not in headers.get("content-type", ""):
            return status, headers, (await reader.read()).decode(errors="replace")
        async for line in reader:
            if line.startswith(b"data: {") and not on_message(json.loads(line[6:])):
                break
        return status, headers, ""
    finally:
        writer.close()


class Load:
    def __init__(self, address, arguments):
        self.address, self.arguments = address, arguments
        self.random = random.Random(arguments.seed)
        self.first, self.each, self.whole = [], [], []  # seconds
        self.answers, self.ratings, self.kinds = Counter(), Counter(), Counter()
        self.taken = {}  # receipt -> reward, answered with 200

    async def turn(self, messages, client, leave_after=None):
        """One streamed answer: its receipt and text; None where it broke off."""
        begun, stamps, text = time.monotonic(), [], ""

        def on_message(message):
            nonlocal text
            for choice in message["choices"]:
                if choice.get("token_ids"):
                    stamps.append(time.monotonic())
                text += choice["delta"].get("content") or ""
            return leave_after is None or len(stamps) < leave_after

        status, headers, _ = await call(self.address, "POST", "/v1/chat/completions", {
            "messages": messages, "max_tokens": self.arguments.tokens, "stream": True, "return_token_ids": True},
            on_message, client)
        self.answers[status] += 1
        if status != 200 or leave_after is not None:
            return None
        if stamps:
            self.first.append(stamps[0] - begun)
            self.whole.append(stamps[-1] - begun)
        if len(stamps) > 1:
            self.each.append((stamps[-1] - stamps[0]) / (len(stamps) - 1))
        return headers.get("x-millrace-interaction-id"), text

    async def rate(self, receipt, reward, expected=None):
        status = 503
        while status == 503:  # the service says: try again later
            status, _, text = await call(self.address, "POST", "/v1/feedback",
                                         {"interaction_id": receipt, "reward": reward})
            self.ratings[status] += 1
        if status == 200:
            self.taken.setdefault(receipt, reward)
        assert expected in (None, status), f"{status} instead of {expected}: {text}"

    async def conversation(self, number):
        client = f"client-{number % 50}"
        kind = self.random.choices(["good", "leaves", "silent", "repeats", "contradicts", "lies"],
                                   [70, 6, 6, 6, 6, 6])[0]
        self.kinds[kind] += 1
        messages = [{"role": "user", "content": f"say {number}:"}]
        for _ in range(TURNS):
            answer = await self.turn(messages, client, 3 if kind == "leaves" else None)
            if answer is None:
                return
            receipt, text = answer
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "go on"}]
            await asyncio.sleep(self.random.uniform(0, 2 * self.arguments.pause))
            reward = sum(letter in "aeiou" for letter in text) / max(1, len(text))
            if kind == "lies":
                await self.rate("int-" + "0" * 32, 1)
            elif kind != "silent" and receipt:
                await self.rate(receipt, reward)
                if kind == "repeats":
                    await self.rate(receipt, reward, 200)
                if kind == "contradicts":
                    await self.rate(receipt, reward + 1, 409)

    async def open_loop(self):
        running, end, number = set(), time.monotonic() + self.arguments.seconds, 0
        while time.monotonic() < end:
            task = asyncio.create_task(self.conversation(number))
            running.add(task)
            task.add_done_callback(running.discard)
            number += 1
            await asyncio.sleep(self.random.expovariate(self.arguments.rate / TURNS))
        self.open_at_the_end = len(running)
        await asyncio.gather(*running)

    async def capacity(self):
        """Answers a second for 16 clients that ask on and on."""
        end, done = time.monotonic() + self.arguments.seconds, 0

        async def ask():
            nonlocal done
            while time.monotonic() < end:
                await self.turn([{"role": "user", "content": f"say {self.random.random()}:"}], "capacity")
                done += 1

        await asyncio.gather(*(ask() for _ in range(16)))
        return done / self.arguments.seconds


def percentiles(values):
    ordered = sorted(values)
    if not ordered:
        return {}
    at = {f"p{q}": round(ordered[min(len(ordered) - 1, len(ordered) * q // 100)], 4) for q in (50, 95, 99)}
    return {**at, "most": round(ordered[-1], 4)}


def accounts(state, taken):
    """What became of each rating that was taken, and whether any of them became two trajectories."""
    live, ledger = (sqlite3.connect(f"file:{state}/{name}.sqlite?mode=ro", uri=True) for name in ("live", "ledger"))
    outcomes = dict(ledger.execute("select id, outcome from trajectories where environment = 'live'"))
    lessons = live.execute("select source, state, trajectory from lessons").fetchall()
    became = Counter(state if state != "submitted" else outcomes.get(trajectory, "not in the ledger")
                     for source, state, trajectory in lessons if source in taken)
    sources, trajectories = [lesson[0] for lesson in lessons], [lesson[2] for lesson in lessons if lesson[2]]
    return {"taken": len(taken), "became": dict(became), "missing": len(set(taken) - set(sources)),
            "unasked": len(set(sources) - set(taken)),
            "twice": len(sources) - len(set(sources)) + len(trajectories) - len(set(trajectories)),
            "without_a_rating": len(set(outcomes) - set(trajectories))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="config/presets/tiny.json")
    parser.add_argument("--rate", type=float, default=5, help="answers a second; 0 measures the capacity")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pause", type=float, default=0.25, help="mean seconds from an answer to what its client does next")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-learn", action="store_true")
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--json", help="file for the result")
    arguments = parser.parse_args()
    options = [word for value in arguments.sets for word in ("--set", value)]
    with Service(*options, *(["--no-learn"] if arguments.no_learn else []), config=arguments.config) as service:
        load = Load(service.address, arguments)
        if not arguments.no_learn:
            service.wait_for_steps(2)
        result = {"rate": arguments.rate, "learn": not arguments.no_learn, "set": arguments.sets}
        if arguments.rate == 0:
            result["answers_per_second"] = round(asyncio.run(load.capacity()), 2)
        else:
            asyncio.run(load.open_loop())
            result["open_at_the_end"] = load.open_at_the_end
        result.update(first_token_s=percentiles(load.first), token_s=percentiles(load.each),
                      answer_s=percentiles(load.whole), answers=dict(load.answers), ratings=dict(load.ratings),
                      conversations=dict(load.kinds), steps=len(service.steps()))
        if not arguments.no_learn and arguments.rate > 0:
            wait_until(lambda: service.metric("millrace_live_lessons") == 0, "no rating waits for a permit", 300)
            wait_until(lambda: all(row["outcome"] != "queued" for row in service.trajectories()
                                   if row["environment"] == "live"), "all rated answers have an end", 300)
            service.stop()
            result["accounts"] = accounts(service.state, load.taken)
    print(json.dumps(result, indent=1))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
