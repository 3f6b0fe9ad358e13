#!/usr/bin/env python3
"""TLS by certificate files: the whole service over it, streams and the program's own commands included."""
import http.client
import json
import os
import socket
import ssl
import subprocess
import unittest
import urllib.request

from service import PROGRAM, ROOT, Service, millrace


def certificate(folder, name):
    """A self-signed certificate for localhost and its key."""
    files = [folder / f"{name}.pem", folder / f"{name}.key"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-out", files[0], "-keyout", files[1]],
                   check=True, capture_output=True)
    return files


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service()
        cls.files = certificate(cls.service.folder, "own")
        cls.service._arguments = ("--set", f"http.certificate_file={cls.files[0]}", "--set", f"http.key_file={cls.files[1]}")
        cls.service.__enter__()
        cls.port = int(cls.service.address.split(":")[1])
        cls.context = ssl.create_default_context(cafile=str(cls.files[0]))

    @classmethod
    def tearDownClass(cls):
        cls.service.__exit__(None, None, None)

    def test_requests_on_one_connection(self):
        connection = http.client.HTTPSConnection("localhost", self.port, context=self.context, timeout=20)
        for _ in range(20):
            connection.request("GET", "/admin/v1/status")
            self.assertIn("policy_version", json.loads(connection.getresponse().read()))
        big = json.dumps({"messages": [{"role": "user", "content": "x" * 300_000}]})
        connection.request("POST", "/v1/chat/completions", big)
        self.assertEqual(connection.getresponse().status, 400)  # over the context, read to its end
        connection.close()

    def test_a_stream(self):
        """It arrives whole: as many tokens as it says at its end; how many these are is the policy's own."""
        body = {"messages": [{"role": "user", "content": "say:"}], "max_tokens": 40, "stream": True,
                "stream_options": {"include_usage": True}, "return_token_ids": True}
        request = urllib.request.Request(f"https://localhost:{self.port}/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, context=self.context, timeout=20) as response:
            *events, done = [line.removeprefix("data: ") for line in response.read().decode().splitlines() if line]
        self.assertEqual(done, "[DONE]")
        chunks = [json.loads(event) for event in events]
        tokens = [token for chunk in chunks for choice in chunk["choices"] for token in choice.get("token_ids") or []]
        self.assertGreater(len(tokens), 0)
        self.assertEqual(len(tokens), chunks[-1]["usage"]["completion_tokens"])

    def test_who_speaks_otherwise_is_refused(self):
        with socket.create_connection(("localhost", self.port)) as plain:
            plain.settimeout(10)
            plain.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertNotIn(b"ok", plain.recv(100))
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with socket.create_connection(("localhost", self.port)) as socket_, self.assertRaises(OSError):
            old.wrap_socket(socket_, server_hostname="localhost")
        with urllib.request.urlopen(f"https://localhost:{self.port}/livez", context=self.context) as response:
            self.assertEqual(response.read(), b"ok\n")

    def test_commands(self):
        address = f"https://localhost:{self.port}"
        trusting = {**os.environ, "SSL_CERT_FILE": str(self.files[0])}
        result = subprocess.run([PROGRAM, "status", "--json", "--address", address], cwd=ROOT, env=trusting,
                                capture_output=True, text=True, check=False, timeout=30)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("policy_version", json.loads(result.stdout))
        result = millrace("status", "--address", address)
        self.assertEqual(result.returncode, 1)
        self.assertIn("certificate verify failed", result.stderr)

    def test_certificates_that_cannot_be_used(self):
        other = certificate(self.service.folder, "other")
        for options, word in ((["http.certificate_file=/no/such.pem", f"http.key_file={other[1]}"], "http.certificate_file"),
                              ([f"http.certificate_file={other[0]}"], "belong together"),
                              ([f"http.certificate_file={other[0]}", f"http.key_file={self.files[1]}"], "http.key_file")):
            result = millrace("serve", "config/presets/tiny.json", "--set", "http.port=0", "--set",
                              f"state.directory={self.service.folder}/{word}",
                              *(word for option in options for word in ("--set", option)))
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(word, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
