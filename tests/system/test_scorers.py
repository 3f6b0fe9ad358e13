#!/usr/bin/env python3
"""A reward that others give: a scoring service over HTTP and a model as judge, asked, killed and back again."""
import collections
import http.server
import json
import threading
import time
import unittest

from service import Service, wait_until


class Scorer:
    """Both at one address: POST /verify scores the share of vowels, /v1/chat/completions judges the length."""

    def __init__(self, port=0, slow_s=0.0):
        self.asked = collections.Counter()
        self.at_once = self.most_at_once = 0
        lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(inner):
                question = json.loads(inner.rfile.read(int(inner.headers["Content-Length"])))
                with lock:
                    self.at_once += 1
                    self.most_at_once = max(self.most_at_once, self.at_once)
                time.sleep(slow_s)
                if inner.path == "/verify":
                    text = question["response"]["output_text"]
                    answer = {"reward": sum(letter in "aeiou" for letter in text) / max(1, len(text))}
                    self.asked["verify"] += 1
                else:
                    words = question["messages"][1]["content"]
                    grade = min(10, len(words) % 11)
                    answer = {"choices": [{"message": {"role": "assistant", "content": f"Fair enough. {grade}"}}]}
                    self.asked[words] += 1
                with lock:
                    self.at_once -= 1
                body = json.dumps(answer).encode()
                inner.send_response(200)
                inner.send_header("Content-Length", str(len(body)))
                inner.end_headers()
                inner.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def kill(self):
        self.server.shutdown()
        self.server.server_close()


def remote(port, judge=None):
    parts = [{"name": "verify", "kind": "http", "weight": 1.0, "url": f"http://127.0.0.1:{port}/verify", "timeout_s": 5,
              "retries": 1},
             {"name": "repetition", "kind": "repetition", "weight": -0.1, "above": 0.9}]
    if judge:
        parts.append({"name": "judge", "kind": "judge", "weight": 0.1, "url": f"http://127.0.0.1:{port}/v1", "model": "m",
                      "rubric": "Be brief.", "timeout_s": 5, "retries": 1, "on_failure": judge})
    return {"name": "remote", "parts": parts}


def count(service, outcome):
    return service.metric(f'millrace_trajectories_total{{outcome="{outcome}"}}')


class RemoteScorers(unittest.TestCase):
    def test_asked_killed_and_back_again(self):
        scorer = Scorer()
        with Service("--set", "policy.lr=1e-5", "--set", "max_wait_s=1", "--set", "min_batch=1") as service:
            service.wait_for_steps(1)
            spec = remote(scorer.port, judge="fail")
            self.assertEqual(service.http("PUT", "/admin/v1/reward-spec", spec)[0], 200)
            wait_until(lambda: sum(row["reward_spec"] == "remote" and row["outcome"] == "trained"
                                   for row in service.trajectories(200)) >= 32, "trained under the remote spec")
            for row in service.trajectories(50):
                if row["reward_spec"] != "remote":
                    continue
                parts = {part["name"]: part["value"] for part in row["reward_parts"]}
                self.assertEqual(set(parts), {"verify", "repetition", "judge"})
                if row["answer"].isascii():
                    share = sum(letter in "aeiou" for letter in row["answer"]) / max(1, len(row["answer"]))
                    self.assertAlmostEqual(parts["verify"], share, places=6)
            judged = {words: times for words, times in scorer.asked.items() if words != "verify"}
            self.assertGreater(len(judged), 30)
            self.assertEqual(set(judged.values()), {1})  # the same question is asked once

            scorer.kill()
            failed = count(service, "score_failed")
            wait_until(lambda: count(service, "score_failed") >= failed + 20, "sessions end without a score")
            self.assertEqual(service.http("GET", "/readyz")[0], 200)
            chat = {"messages": [{"role": "user", "content": "say:"}], "max_tokens": 4}
            self.assertEqual(service.http("POST", "/v1/chat/completions", chat)[0], 200)
            reason = next(row["reason"] for row in service.trajectories(200) if row["outcome"] == "score_failed")
            self.assertIn("no service at", reason)

            scorer = Scorer(scorer.port)
            trained = count(service, "trained")
            wait_until(lambda: count(service, "trained") >= trained + 64, "it learns on")
            counts = service.status()["trajectories"]
            self.assertEqual(counts["accepted"], counts["trained"] + counts["queued"] + counts["rejected"])
        scorer.kill()

    def test_several_at_once_and_a_part_that_may_fail(self):
        scorer = Scorer(slow_s=0.2)
        with Service() as service:
            spec = remote(scorer.port)
            spec["parts"].append({"name": "gone", "kind": "http", "weight": 1, "url": "http://127.0.0.1:9/x",
                                  "retries": 0, "on_failure": "omit"})
            self.assertEqual(service.http("PUT", "/admin/v1/reward-spec", spec)[0], 200)
            rows = wait_until(lambda: [row for row in service.trajectories(200) if row["reward_spec"] == "remote"],
                              "trajectories with what was answered")
            self.assertEqual({part["name"] for part in rows[0]["reward_parts"]}, {"verify", "repetition"})
            self.assertGreater(scorer.most_at_once, 3)
            slowest = 0.0
            for _ in range(20):
                start = time.monotonic()
                self.assertEqual(service.http("GET", "/admin/v1/reward-spec")[0], 200)
                slowest = max(slowest, time.monotonic() - start)
            self.assertLess(slowest, 0.15)  # the scorer's own actor waits for none of them

    def test_dry_run_and_rescore(self):
        scorer = Scorer()
        with Service() as service:
            service.wait_for_steps(1)
            spec = remote(scorer.port)
            code, _, body = service.http("POST", "/admin/v1/reward-spec/dry-run", {"spec": spec})
            answer = json.loads(body)
            self.assertEqual((code, answer["compared"], answer["warnings"]), (200, 32, []))
            self.assertAlmostEqual(answer["mean_before"], answer["mean_after"], delta=0.05)  # vowels here and there
            code, _, body = service.http("PUT", "/admin/v1/reward-spec", {"spec": spec, "in_flight": "rescore"})
            self.assertEqual(code, 400, body)
            self.assertEqual(service.status()["reward_spec"], {"name": "vowels", "version": 1})
            scorer.kill()
            spec["parts"][0].update(retries=0)
            answer = json.loads(service.http("POST", "/admin/v1/reward-spec/dry-run", {"spec": spec, "limit": 5})[2])
            self.assertEqual(answer["compared"], 0)
            self.assertIn("5 of 5 answers got no score", answer["warnings"][0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
