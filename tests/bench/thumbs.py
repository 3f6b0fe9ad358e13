#!/usr/bin/env python3
"""Applications that chat by the official openai client and send thumbs: does SmolLM2 come to prefer what they like?

    thumbs.py [--conversations 800] [--json FILE]

Eight users ask for a sentence about something, on and on, and give a thumb up to an answer with an exclamation mark and a
thumb down (0) to any other. Nothing else is trained. Prints the share of thumbs up by hundreds of conversations, steps and
minutes, and the seconds from the first thumb to the first answer of weights that have learned from one.
"""
import argparse
import json
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from packages import need  # noqa: E402
from service import Service  # noqa: E402

need("openai", "openai==2.54.0")
import openai  # noqa: E402

USERS = 8
TOPICS = ("the sea", "a cat", "the moon", "rain", "a train", "breakfast", "winter", "an old book", "a bridge", "music")
LIVE = ("environment.name=live", "value.warmup_steps=0", "min_batch=8", "max_wait_s=5")


class Users:
    def __init__(self, service):
        self.service = service
        self.client = openai.OpenAI(base_url=f"http://{service.address}/v1", api_key="none", max_retries=0, timeout=300)
        self.lock = threading.Lock()
        self.thumbs = []
        self.first_thumb = self.first_update = None

    def converse(self, number):
        topic = random.Random(number).choice(TOPICS)
        answer = self.client.chat.completions.with_raw_response.create(
            model="any", max_tokens=24, user=f"user-{number % USERS}",
            messages=[{"role": "user", "content": f"Write one sentence about {topic}."}])
        thumb = float("!" in (answer.parse().choices[0].message.content or ""))
        version = int(answer.headers["x-millrace-policy-version"])
        status, _, body = self.service.http("POST", "/v1/feedback", {
            "interaction_id": answer.headers["x-millrace-interaction-id"], "reward": thumb})
        assert status == 200, body
        with self.lock:
            self.thumbs.append(thumb)
            self.first_thumb = self.first_thumb or time.monotonic()
            if version > 0:
                self.first_update = self.first_update or time.monotonic()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=800)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    sets = [word for value in LIVE for word in ("--set", value)]
    with Service(*sets, config="config/presets/quickstart.json") as service, ThreadPoolExecutor(USERS) as pool:
        users, begun = Users(service), time.monotonic()
        list(pool.map(users.converse, range(arguments.conversations)))
        minutes = (time.monotonic() - begun) / 60
        hundreds = [users.thumbs[i:i + 100] for i in range(0, len(users.thumbs), 100)]
        result = {"conversations": len(users.thumbs), "up_by_hundreds": [round(sum(part) / len(part), 2) for part in hundreds],
                  "policy_steps": len(service.steps()), "minutes": round(minutes, 1),
                  "seconds_from_the_first_thumb_to_new_weights": round(users.first_update - users.first_thumb, 1)}
    print(json.dumps(result))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
