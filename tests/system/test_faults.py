#!/usr/bin/env python3
"""What an operator gets wrong is refused in one clear line, and leaves nothing behind."""
import json
import shutil
import socket
import tempfile
import unittest
from pathlib import Path

from service import ROOT, Service, TINY, complaints, millrace

MODEL = ROOT / "third_party/SmolLM2-135M-Instruct.Q4_1.gguf"


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="millrace-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.state = self.folder / "state"

    def check_refused(self, code, names, *arguments, config=TINY):
        """`serve` ends with the code and one line that says each of the names; no state was made."""
        result = millrace("serve", config, "--set", "http.port=0", "--set", f"state.directory={self.state}", *arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(len(complaints(result)), 1, result.stderr)
        for name in names:
            self.assertIn(name, complaints(result)[0])
        self.assertEqual(result.stdout, "")
        self.assertFalse(self.state.exists())

    def write_config(self, text):
        path = self.folder / "config.json"
        path.write_text(text)
        return path

    def test_unknown_key(self):
        config = self.write_config('{"generation": {"temprature": 1}}')
        self.check_refused(2, [str(config), "generation.temprature", "generation.temperature"], config=config)

    def test_value_out_of_range(self):
        self.check_refused(2, ["batch"], "--set", "batch=0")

    def test_no_json(self):
        config = self.write_config('{"batch": 4,,}')
        self.check_refused(2, [str(config), "1"], config=config)

    def test_missing_config(self):
        self.check_refused(2, ["nowhere.json"], config=self.folder / "nowhere.json")

    def test_missing_model(self):
        self.check_refused(1, ["nowhere.gguf"], "--set", f"model.path={self.folder}/nowhere.gguf")

    def test_truncated_model(self):
        path = self.folder / "half.gguf"
        with open(MODEL, "rb") as whole:
            path.write_bytes(whole.read(50_000_000))
        self.check_refused(1, ["half.gguf"], "--set", f"model.path={path}")

    def test_unknown_reward_spec(self):
        self.check_refused(1, ["nonsense"], "--set", "reward.spec=nonsense")

    def test_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.check_refused(1, [f"127.0.0.1:{port}", "in use"], "--set", f"http.port={port}")

    def test_state_in_use(self):
        with Service() as service:
            result = millrace("serve", TINY, "--set", "http.port=0", "--set", f"state.directory={service.state}")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(len(complaints(result)), 1, result.stderr)
            self.assertIn(str(service.state), complaints(result)[0])
            done = len(service.steps())
            service.wait_for_steps(done + 1)

    def test_no_service(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
        for command in (["status"], ["shift", "cute"], ["trajectories"]):
            result = millrace(*command, "--address", address)
            self.assertEqual((result.returncode, len(complaints(result))), (1, 1), result.stderr)
            self.assertIn(address, complaints(result)[0])

    def test_bad_use(self):
        for command in ([], ["nonsense"], ["serve"], ["serve", TINY, "--nonsense"], ["trajectories", "--state", "odd"],
                        ["shift", "nowhere/spec.json"], ["config"]):
            result = millrace(*command)
            self.assertEqual((result.returncode, len(complaints(result))), (2, 1), f"{command}: {result.stderr}")

    def test_config_commands(self):
        for wrong in ("environment.name=letter", "reward.spec=vowel"):
            result = millrace("config", "check", TINY, "--set", wrong)
            self.assertEqual((result.returncode, len(complaints(result))), (2, 1), result.stderr)
            self.assertIn("did you mean", complaints(result)[0])
        self.assertEqual(millrace("config", "check", TINY).returncode, 0)
        result = millrace("config", "check", TINY, "--set", "max_lag=-1")
        self.assertEqual((result.returncode, len(complaints(result))), (2, 1), result.stderr)
        shown = json.loads(millrace("config", "show", TINY, "--set", "max_lag=3").stdout)
        self.assertEqual(shown["max_lag"], 3)
        schema = json.loads(millrace("config", "schema").stdout)
        self.assertIn("max_lag", schema["properties"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
