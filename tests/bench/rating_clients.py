"""Clients of the public API that chat with a service and rate what they get: what poison.py and drifting_users.py share."""
import json

# A service that learns from nobody else.
LIVE = ("environment.name=live", "value.warmup_steps=0", "batch=8", "min_batch=4", "max_wait_s=2")
VOWELS = "aeiou"


def share(text, letters=VOWELS):
    return sum(letter in letters for letter in text) / max(1, len(text))


def ask_and_rate(service, client, rating):
    """The answer that `client` got, and what it was rated."""
    status, headers, body = service.http("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "say:"}], "max_tokens": 12}, {"x-millrace-client": client})
    assert status == 200, body
    text = json.loads(body)["choices"][0]["message"]["content"]
    reward = rating(text)
    status, _, body = service.http("POST", "/v1/feedback", {
        "interaction_id": headers["x-millrace-interaction-id"], "reward": reward})
    assert status == 200, body
    return text, reward
