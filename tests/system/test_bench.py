#!/usr/bin/env python3
"""`millrace bench`: every figure has a name, a value, a unit and its share of what the machine allows."""
import json
import unittest

from service import ROOT, complaints, millrace

MODEL = ROOT / "third_party" / "SmolLM2-135M-Instruct.Q4_1.gguf"


class Bench(unittest.TestCase):
    def figures(self, *arguments):
        result = millrace("bench", *arguments, "--json", timeout=240)  # a busy machine takes minutes for what is seconds alone
        self.assertEqual(result.returncode, 0, result.stderr)
        figures = {}
        for entry in map(json.loads, result.stdout.splitlines()):
            self.assertEqual(set(entry), {"name", "value", "unit", "limit_share"})
            self.assertGreater(entry["value"], 0, entry)
            if entry["limit_share"] is not None:
                self.assertTrue(0 < entry["limit_share"] < 1.5, entry)  # a busy machine measures its limits too low
            figures[entry["name"]] = entry
        return figures

    def test_models(self):
        figures = self.figures("generate", "--model", MODEL, "--batch", "2", "--tokens", "8", "--dtype", "int8")
        self.assertEqual(figures["generation"]["unit"], "tokens/s")
        self.assertIsNotNone(figures["generation"]["limit_share"])
        figures = self.figures("publish", "--model", MODEL, "--batch", "2", "--tokens", "8", "--dtype", "int8")
        self.assertLess(figures["publish_pause"]["value"], figures["decode_step"]["value"])
        figures = self.figures("learn", "--model", MODEL, "--batch", "1", "--tokens", "8")
        self.assertLess(figures["peak_memory"]["value"], 8)

    def test_flow(self):
        figures = self.figures("flow", "--sessions", "64")
        self.assertEqual(figures["flow"]["unit"], "trajectories/s")
        self.assertLess(figures["flow_durable"]["value"], figures["bare_hops"]["value"])

    def test_bad_use(self):
        for arguments, word in (((), "WHAT"), (("everything",), "everything"), (("learn", "--dtype", "int8"), "int8")):
            result = millrace("bench", *arguments)
            self.assertEqual((result.returncode, len(complaints(result))), (2, 1), result.stderr)
            self.assertIn(word, result.stderr)
        result = millrace("bench", "generate", "--model", "/nowhere.gguf")
        self.assertEqual(result.returncode, 1)
        self.assertIn("/nowhere.gguf", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
