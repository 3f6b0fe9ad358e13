#!/usr/bin/env python3
"""What a supervisor sees of the service: ready, alive, reloaded, stopping; and a service that only answers."""
import os
import signal
import socket
import tempfile
import time
import unittest
from pathlib import Path

from service import ROOT, Service, TINY, wait_until


class Supervisor:
    """systemd's end of the notification socket."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="millrace-test-")
        path = Path(self.folder.name) / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.setblocking(False)
        self.messages = []
        os.environ |= {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "1000000"}
        return self

    def __exit__(self, *_):
        for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC"):
            del os.environ[name]
        self.socket.close()
        self.folder.cleanup()

    def heard(self, message, times=1):
        while True:
            try:
                self.messages.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return self.messages.count(message) >= times


class Supervised(unittest.TestCase):
    def test_ready_alive_reloading_stopping(self):
        with Supervisor() as supervisor, Service("--set", "model.max_context=128") as service:
            wait_until(lambda: supervisor.heard("READY=1"), "READY")
            wait_until(lambda: supervisor.heard("WATCHDOG=1", 3), "three signs of life")

            service.process.send_signal(signal.SIGHUP)
            wait_until(lambda: supervisor.heard("READY=1", 2), "READY again")
            self.assertIn("RELOADING=1", supervisor.messages)
            wait_until(lambda: "reloaded: the reward spec is the same" in service.log(), "the log says so")

            service.process.send_signal(signal.SIGSTOP)  # what hangs falls silent
            time.sleep(0.5)
            supervisor.heard("WATCHDOG=1")
            silent_from = len(supervisor.messages)
            time.sleep(1.5)
            supervisor.heard("WATCHDOG=1")
            self.assertEqual(supervisor.messages[silent_from:], [])
            service.process.send_signal(signal.SIGCONT)
            wait_until(lambda: supervisor.heard("WATCHDOG=1", len(supervisor.messages)) or
                       len(supervisor.messages) > silent_from, "a sign of life")

            self.assertEqual(service.stop(), 0, service.log())
            supervisor.heard("STOPPING=1")
            self.assertIn("STOPPING=1", supervisor.messages)

    def test_reload_applies_what_can_change_and_names_the_rest(self):
        text = (ROOT / TINY).read_text()
        folder = tempfile.TemporaryDirectory(prefix="millrace-test-")
        self.addCleanup(folder.cleanup)
        config = Path(folder.name) / "tiny.json"
        config.write_text(text)
        with Service(config=config) as service:
            config.write_text(text.replace('"spec": "vowels"', '"spec": "cute"').replace('"batch": 16', '"batch": 8'))
            service.process.send_signal(signal.SIGHUP)
            wait_until(lambda: service.status()["reward_spec"]["name"] == "cute", "the reload")
            self.assertIn("only a restart changes: batch min_batch", service.log())
            config.write_text("{")
            service.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "not reloaded" in service.log(), "the complaint")
            self.assertEqual(service.status()["reward_spec"]["name"], "cute")

    def test_only_answering(self):
        with Service("--no-learn") as service:
            code, _, _ = service.http("POST", "/v1/chat/completions",
                                      {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4})
            self.assertEqual(code, 200)
            time.sleep(1)
            self.assertEqual(service.status()["trajectories"]["accepted"], 0)
            self.assertEqual(service.status()["policy_version"], 0)
            self.assertEqual(service.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
