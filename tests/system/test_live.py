#!/usr/bin/env python3
"""Learning from live traffic: clients chat, reward what they like, and the policy comes to prefer it."""
import json
import random
import tempfile
import time
import unittest

from packages import need
from service import Service, wait_until

need("openai", "openai==2.54.0")
import openai  # noqa: E402

VOWELS = set("aeiou")
LIVE = ("--set", "environment.name=live", "--set", "value.warmup_steps=0", "--set", "batch=8", "--set", "max_wait_s=2",
        "--set", "min_batch=4")


def share(text):
    return sum(letter in VOWELS for letter in text) / max(1, len(text))


class Live(unittest.TestCase):
    def ask(self, service, **body):
        status, headers, text = service.http("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "say:"}], "max_tokens": 12, **body}, body.pop("headers", None))
        self.assertEqual(status, 200, text)
        return headers, json.loads(text)

    def test_the_policy_moves_to_what_is_rewarded(self):
        with Service(*LIVE) as service:
            client = openai.OpenAI(base_url=f"http://{service.address}/v1", api_key="none", max_retries=0)
            means, first_feedback, first_update = [], None, None
            for _ in range(200):  # how many it takes is a matter of how fast answers and steps are here
                rewards = []
                for _ in range(8):
                    answer = client.chat.completions.with_raw_response.create(
                        model="any", messages=[{"role": "user", "content": "say:"}], max_tokens=12)
                    reward = share(answer.parse().choices[0].message.content or "")
                    if first_update is None and int(answer.headers["x-millrace-policy-version"]) > 0:
                        first_update = time.monotonic()
                    status, _, body = service.http("POST", "/v1/feedback", {
                        "interaction_id": answer.headers["x-millrace-interaction-id"], "reward": reward})
                    self.assertEqual(status, 200, body)
                    first_feedback = first_feedback or time.monotonic()
                    rewards.append(reward)
                means.append(sum(rewards) / len(rewards))
                if len(means) >= 20 and sum(means[-4:]) / 4 > sum(means[:4]) / 4 + 0.4:
                    break
            start, end = sum(means[:4]) / 4, sum(means[-4:]) / 4
            asked = 8 * len(means)
            print(f"mean reward of the first and last 32 of {asked} answers: {start:.3f}, {end:.3f}; "
                  f"{first_update - first_feedback:.1f} s from the first feedback to the first answer of new weights")
            self.assertGreater(end, start + 0.3)
            wait_until(lambda: service.status()["trajectories"]["trained"] >= asked - 20, "feedback is trained")
            counts = service.status()["trajectories"]
            self.assertLessEqual(counts["accepted"], asked)
            self.assertEqual(counts["accepted"], counts["trained"] + counts["queued"] + counts["rejected"])
            for row in service.trajectories():
                self.assertEqual((row["environment"], row["reward_spec"]), ("live", "feedback"))

    def test_feedback_is_taken_once(self):
        with Service(*LIVE) as service:
            headers, answer = self.ask(service)
            receipt = headers["x-millrace-interaction-id"]
            self.assertEqual(answer["millrace"]["interaction_id"], receipt)

            def send(**body):
                return service.http("POST", "/v1/feedback", body)[0]

            self.assertEqual(send(interaction_id=receipt, reward=1), 200)
            self.assertEqual(send(interaction_id=receipt, score=1), 200)
            self.assertEqual(send(interaction_id=receipt, reward=0), 409)
            self.assertEqual(send(interaction_id="int-unknown", reward=1), 404)
            for bad in ({"interaction_id": receipt}, {"reward": 1}, {"interaction_id": 7, "reward": 1},
                        {"interaction_id": receipt, "reward": "good"}, {"interaction_id": receipt, "reward": 1e9},
                        {"interaction_id": receipt, "reward": 1, "score": 1},
                        {"interaction_id": receipt, "reward": 1, "final": "yes"}):
                self.assertEqual(service.http("POST", "/v1/feedback", bad)[0], 400, bad)
            self.assertEqual(service.http("POST", "/v1/feedback", "no json")[0], 400)
            wait_until(lambda: service.status()["trajectories"]["accepted"] == 1, "one trajectory")
            row = service.trajectories()[0]
            self.assertEqual((row["reward"], row["task"]), (1, "say:"))
            self.assertEqual(row["action_tokens"], answer["usage"]["completion_tokens"])

            headers, _ = self.ask(service, top_k=3)  # served, and never trained
            self.assertEqual(send(interaction_id=headers["x-millrace-interaction-id"], reward=1), 200)
            wait_until(lambda: service.status()["trajectories"]["accepted"] == 2, "a second one")
            self.assertEqual((service.trajectories()[0]["outcome"], service.trajectories()[0]["reason"]),
                             ("invalid", "sampling"))

    def test_kept_out_of_training_and_forgotten(self):
        with Service(*LIVE) as service:
            status, headers, _ = service.http("POST", "/v1/chat/completions", {
                "messages": [{"role": "user", "content": "secret"}], "max_tokens": 3}, {"x-millrace-no-training": "1"})
            self.assertEqual(status, 200)
            self.assertNotIn("x-millrace-interaction-id", headers)
            headers, _ = self.ask(service, user="ada")
            receipt = headers["x-millrace-interaction-id"]
            taught, _ = self.ask(service, user="ada")
            service.http("POST", "/v1/feedback", {"interaction_id": taught["x-millrace-interaction-id"],
                                                  "reward": 1})
            wait_until(lambda: service.status()["trajectories"]["accepted"] == 1, "one trajectory")
            report = json.loads(service.command("forget", "ada", "--json").stdout)
            self.assertEqual((report["interactions"], len(report["trajectories"])), (2, 1))
            self.assertEqual(service.command("forget", "nobody").returncode, 0)
            self.assertEqual(service.http("POST", "/v1/feedback", {"interaction_id": receipt, "reward": 1})[0], 404)

    def test_what_matches_a_rule_is_stored_nowhere(self):
        secret, mail = "xylophone-secret", "ada@example.org"
        with tempfile.NamedTemporaryFile("w", suffix=".rules") as rules:
            rules.write("ada@[\\w.]+\n")  # more than the random policy writes by chance: one @ is not
            rules.flush()
            with Service(*LIVE, "--set", f"live.redact_file={rules.name}") as service:
                receipts = []
                for words in (f"{secret} {mail}", "say:"):
                    headers, _ = self.ask(service, messages=[{"role": "user", "content": words}])
                    receipts.append(headers["x-millrace-interaction-id"])
                    self.assertEqual(service.http("POST", "/v1/feedback", {"interaction_id": receipts[-1], "reward": 1})[0], 200)
                wait_until(lambda: service.status()["trajectories"]["accepted"] == 2, "both are in the ledger")
                rows = {row["task"]: row for row in service.trajectories()}
                self.assertEqual(rows[f"{secret} [redacted]"]["reason"], "redacted")
                self.assertEqual(rows["say:"]["reason"] or "", "")
                log = service.log()
                service.stop()
                for file in service.state.rglob("*"):
                    if file.is_file():
                        self.assertNotIn(mail.encode(), file.read_bytes(), file)
                self.assertNotIn(secret, log)

    def test_feedback_outlives_a_full_gate(self):
        """The learner needs 64 trajectories a step and the gate lets one at a time: all are taken, and all get in."""
        with Service(*LIVE, "--set", "batch=64", "--set", "min_batch=64", "--set", "max_lag=0") as service:
            for _ in range(70):
                headers, _ = self.ask(service, max_tokens=2)
                self.assertEqual(service.http("POST", "/v1/feedback", {
                    "interaction_id": headers["x-millrace-interaction-id"], "reward": random.random()})[0], 200)
            wait_until(lambda: service.status()["trajectories"]["accepted"] == 70, "all got their permit")
            self.assertEqual(service.status()["trajectories"]["trained"], 64)

    def test_sessions(self):
        with Service(*LIVE) as service:
            def call(path, body, key=None):
                status, _, text = service.http("POST", path, body, {"Authorization": f"Bearer {key}"} if key else None)
                return status, json.loads(text)

            status, session = call("/rl/start_session", {"task_id": "t"})
            self.assertEqual(status, 200)
            key = session["api_key"]
            self.assertEqual(call("/rl/start_session", {"task_id": "t", "api_key": key})[0], 409)
            client = openai.OpenAI(base_url=f"http://{service.address}", api_key=key, max_retries=0)  # no /v1
            messages = [{"role": "user", "content": "say:"}]
            first = client.chat.completions.create(model="any", messages=messages, max_tokens=6,
                                                   extra_body={"return_token_ids": True})
            messages += [{"role": "assistant", "content": first.choices[0].message.content},
                         {"role": "user", "content": "more"}]
            second = client.chat.completions.create(model="any", messages=messages, max_tokens=6,
                                                    extra_body={"return_token_ids": True})
            said = first.prompt_token_ids + first.choices[0].token_ids
            self.assertEqual(second.prompt_token_ids[:len(said)], said)  # exactly what was sampled
            self.assertEqual(call("/rl/set_reward", {"reward": 0.5}, key)[0], 200)
            self.assertEqual(call("/rl/set_reward", {"reward": 0.75}, key)[0], 200)
            self.assertEqual(call("/rl/end_session", {}, key)[1]["trajectories"], 1)
            self.assertEqual(call("/rl/end_session", {}, key)[0], 401)
            with self.assertRaises(openai.AuthenticationError):
                client.chat.completions.create(model="any", messages=messages, max_tokens=6)
            wait_until(lambda: service.status()["trajectories"]["accepted"] == 1, "the session's trajectory")
            row = service.trajectories()[0]
            self.assertEqual((row["turns"], row["reward"]), (2, 0.75))

    def test_chat_command(self):
        with Service(*LIVE) as service:
            result = service.command("chat", stdin="say:\n/up\n")
            self.assertEqual(result.returncode, 0, result.stderr)
            wait_until(lambda: service.status()["trajectories"]["accepted"] == 1, "the thumb becomes a trajectory")
            self.assertEqual(service.trajectories()[0]["reward"], 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
