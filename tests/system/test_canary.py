#!/usr/bin/env python3
"""The newest policy as a canary: ratings let it have all clients, or take it back."""
import json
import unittest

from service import Service, wait_until

CANARY = ("environment.name=live", "value.warmup_steps=0", "batch=4", "min_batch=4", "checkpoint.every_steps=1",
          "checkpoint.keep=50", "live.canary_share=0.5", "live.canary_ratings=8")


class CanaryOfTheNewest(unittest.TestCase):
    def answer(self, service, client):
        status, headers, body = service.http("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "say:"}], "max_tokens": 4}, {"x-millrace-client": client})
        self.assertEqual(status, 200, body)
        return headers["x-millrace-interaction-id"], int(headers["x-millrace-policy-version"])

    def test_promoted_by_ratings_and_rolled_back_by_ratings(self):
        with Service(*(word for value in CANARY for word in ("--set", value))) as service:
            def good():
                return service.metric("millrace_good_policy_version")

            def rate(clients, reward_of):
                for client in clients:
                    receipt, version = self.answer(service, client)
                    reward = reward_of(client, version)
                    self.assertEqual(service.http("POST", "/v1/feedback", {"interaction_id": receipt, "reward": reward})[0], 200)

            clients = [f"client-{i}" for i in range(32)]
            self.assertEqual(good(), 0)
            rate(clients[:8], lambda *_: 0.5)  # a first version, which only some clients meet
            wait_until(lambda: service.status()["policy_version"] >= 1, "a version")
            served = {client: self.answer(service, client)[1] for client in clients}
            self.assertIn(0, served.values())
            met_newest = {client for client, version in served.items() if version > 0}
            self.assertTrue(met_newest)
            for client in clients:
                self.assertEqual(self.answer(service, client)[1] > 0, client in met_newest)

            rate(clients, lambda *_: 0.5)
            wait_until(lambda: good() >= 1, "it is as good: the good one now")
            promoted = good()
            self.assertGreaterEqual(service.metric('millrace_canary_verdicts_total{verdict="good"}'), 1)
            wait_until(lambda: service.status()["policy_version"] > promoted, "newer ones")

            while service.metric('millrace_canary_verdicts_total{verdict="bad"}') == 0:
                rate(clients, lambda client, _: 0.0 if client in met_newest else 1.0)
            wait_until(lambda: "rolled back to version" in service.log(), "the bad one is taken back")
            self.assertIn("the newest policy is bad: mean rating", service.log())
            counts = json.loads(service.http("GET", "/admin/v1/status")[2])["trajectories"]
            self.assertEqual(counts["accepted"], counts["trained"] + counts["queued"] + counts["rejected"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
