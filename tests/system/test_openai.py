#!/usr/bin/env python3
"""The official openai client works unchanged, TRL's way of calling vLLM does, too, and who leaves costs nothing more."""
import json
import socket
import threading
import time
import unittest

from packages import need
from service import Service, wait_until

need("openai", "openai==2.54.0")
import openai  # noqa: E402

MESSAGES = [{"role": "user", "content": "say:"}]


class OpenAI(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service("--set", "model.max_context=512").__enter__()
        cls.client = openai.OpenAI(base_url=f"http://{cls.service.address}/v1", api_key="none", max_retries=0)
        cls.model = cls.client.models.list().data[0].id

    @classmethod
    def tearDownClass(cls):
        cls.service.__exit__(None, None, None)

    def chat(self, **arguments):
        return self.client.chat.completions.create(model=self.model, messages=MESSAGES, **arguments)

    def test_chat(self):
        answer = self.chat(max_tokens=12, logprobs=True, extra_body={"return_token_ids": True})
        choice = answer.choices[0]
        self.assertEqual(choice.message.role, "assistant")
        self.assertIn(choice.finish_reason, ("stop", "length"))
        self.assertEqual(len(choice.logprobs.content), answer.usage.completion_tokens)
        self.assertEqual(len(choice.token_ids), answer.usage.completion_tokens)
        self.assertEqual(len(answer.prompt_token_ids), answer.usage.prompt_tokens)
        self.assertTrue(all(token.logprob <= 0 for token in choice.logprobs.content))

    def test_stream_equals_whole(self):
        # A greedy answer depends on the weights alone, and the versions say whether they were the same.
        for _ in range(20):
            whole = self.chat(max_tokens=24, temperature=0, extra_body={"return_token_ids": True})
            text, ids = "", []
            with self.chat(max_tokens=24, temperature=0, stream=True, stream_options={"include_usage": True},
                           extra_body={"return_token_ids": True}) as stream:
                self.assertEqual(stream.response.headers["content-type"], "text/event-stream")
                version = stream.response.headers["x-millrace-policy-version"]
                for chunk in stream:
                    for choice in chunk.choices:
                        text += choice.delta.content or ""
                        ids += getattr(choice, "token_ids", None) or []
                    usage = chunk.usage
            self.assertEqual(usage.completion_tokens, len(ids))
            spans = whole.millrace["weight_versions"]
            if len(spans) == 1 and spans[0]["version"] == version and ids == whole.choices[0].token_ids:
                self.assertEqual(text, whole.choices[0].message.content)
                return
        self.fail("twenty times the weights changed between two answers")

    def test_reference(self):
        self.assertEqual([model.id for model in self.client.models.list().data], [self.model, "reference"])
        self.service.wait_for_steps(3)
        raw = self.client.chat.completions.with_raw_response.create(
            model="reference", messages=MESSAGES, max_tokens=12, seed=5, temperature=0)
        self.assertEqual(raw.headers["x-millrace-policy-version"], "0")
        self.assertNotIn("x-millrace-interaction-id", raw.headers)
        self.assertEqual(raw.parse().model, "reference")
        first = raw.parse().choices[0].message.content
        self.service.wait_for_steps(len(self.service.steps()) + 3)
        again = self.client.chat.completions.create(
            model="reference", messages=MESSAGES, max_tokens=12, seed=5, temperature=0)
        self.assertEqual(again.choices[0].message.content, first)

    def test_n_stop_and_errors(self):
        answer = self.chat(max_tokens=8, n=3, seed=5)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2])
        self.assertGreater(len({choice.message.content for choice in answer.choices}), 1)
        stopped = self.chat(max_tokens=200, stop=["a", "e", "i", "o", "u"])
        self.assertFalse(set(stopped.choices[0].message.content) & set("aeiou"))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(temperature=3)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError):  # a context of 512 tokens
            self.client.chat.completions.create(model=self.model, messages=[{"role": "user", "content": "x" * 600}])
        with self.assertRaises(openai.BadRequestError):
            self.chat(stream=True, extra_body={"min_p": 0.1})

    def test_top_logprobs(self):
        answer = self.chat(max_tokens=6, logprobs=True, top_logprobs=3)
        for token in answer.choices[0].logprobs.content:
            values = [other.logprob for other in token.top_logprobs]
            self.assertEqual((len(values), values), (3, sorted(values, reverse=True)))
            self.assertGreaterEqual(values[0] + 1e-6, token.logprob)
        text = self.client.completions.create(model=self.model, prompt="say:", max_tokens=5, logprobs=2)
        self.assertTrue(all(len(top) <= 2 for top in text.choices[0].logprobs.top_logprobs))
        with self.assertRaises(openai.BadRequestError):
            self.chat(top_logprobs=3)  # without logprobs

    def test_tools(self):
        """A random model calls nothing, but a conversation with calls goes in and a tool may be offered."""
        tools = [{"type": "function", "function": {"name": "calculate", "parameters": {"type": "object"}}}]
        call = {"id": "c", "type": "function", "function": {"name": "calculate", "arguments": '{"a": 1}'}}
        messages = [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "c", "content": "2"}]
        for choice in ("auto", "none"):
            answer = self.client.chat.completions.create(model=self.model, messages=messages, max_tokens=6, tools=tools,
                                                         tool_choice=choice)
            self.assertIsNone(answer.choices[0].message.tool_calls)
            self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))
        with self.client.chat.completions.create(model=self.model, messages=messages, max_tokens=6, tools=tools,
                                                 stream=True) as stream:
            self.assertTrue(any(chunk.choices[0].finish_reason for chunk in stream))
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(tools=tools, tool_choice="required")
        self.assertEqual(caught.exception.param, "tool_choice")

    def test_seed(self):
        """The same seed on the same weights gives the same answer."""
        for _ in range(20):
            pair = [self.chat(max_tokens=16, seed=7) for _ in range(2)]
            if pair[0].millrace["weight_versions"] == pair[1].millrace["weight_versions"]:
                self.assertEqual(pair[0].choices[0].message.content, pair[1].choices[0].message.content)
                return
        self.fail("twenty times the weights changed between two answers")

    def test_trl_call(self):
        status, headers, body = self.service.http("POST", "/v1/completions", {
            "model": self.model, "prompt": [115, 97, 121, 58], "max_tokens": 6, "temperature": 1.0, "top_p": 1.0,
            "top_k": -1, "repetition_penalty": 1.0, "n": 1, "return_token_ids": True, "logprobs": 0, "seed": 2**63 - 1})
        self.assertEqual(status, 200, body)
        choice = json.loads(body)["choices"][0]
        self.assertEqual(len(choice["token_ids"]), len(choice["logprobs"]["token_logprobs"]))
        self.assertTrue(headers["x-millrace-policy-version"].isdigit())
        text = self.client.completions.create(model=self.model, prompt="say:", max_tokens=5, logprobs=0)
        self.assertEqual(len(text.choices[0].logprobs.token_logprobs), text.usage.completion_tokens)

    def test_open_streams_delay_no_probe(self):
        stop = threading.Event()

        def read():
            while not stop.is_set():
                for _ in self.chat(max_tokens=400, stream=True):
                    pass

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        slowest = 0.0
        for _ in range(30):
            start = time.monotonic()
            self.assertEqual(self.service.http("GET", "/livez")[0], 200)
            slowest = max(slowest, time.monotonic() - start)
            time.sleep(0.02)
        stop.set()
        for reader in readers:
            reader.join()
        self.assertLess(slowest, 1.0)


class Cancelling(unittest.TestCase):
    def test_who_leaves_stops_the_generator(self):
        """Ten callers ask for more tokens than a minute can give, hang up, and the generator is idle again."""
        with Service("--set", "model.max_context=100000", "--set", "environment.name=live") as service:
            host, port = service.address.split(":")
            for stream in ("true", "false") * 5:
                payload = json.dumps({"messages": MESSAGES, "max_tokens": 90000, "stream": stream == "true"})
                with socket.create_connection((host, int(port))) as caller:
                    caller.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: "
                                   f"{len(payload)}\r\n\r\n{payload}".encode())
                    time.sleep(0.1)

            def generated():
                for line in service.http("GET", "/metrics")[2].splitlines():
                    if line.startswith("millrace_generated_tokens_total "):
                        return float(line.split()[1])
                return None

            def idle():
                before = generated()
                time.sleep(0.3)
                return generated() == before

            wait_until(idle, "the generator is idle", 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
