#!/usr/bin/env python3
"""A preference shift of a running service: at once, as a whole, and only when it is right."""
import json
import unittest

from service import Service, complaints, wait_until

CONSONANTS = {"name": "consonants",
              "parts": [{"name": "consonants", "kind": "letter_share", "weight": 1.0, "letters": "bcdfgklmnprst"}]}


def spec_of(row):
    return row["reward_spec"], row["reward_spec_version"]


class Shift(unittest.TestCase):
    def test_shift_while_it_trains(self):
        with Service() as service:
            service.wait_for_steps(1)
            (service.folder / "consonants.json").write_text(json.dumps(CONSONANTS))
            result = service.command("shift", service.folder / "consonants.json", "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout)["version"], 2)

            # What had its score already may still be on its way; what comes after is all of the new spec.
            seen = service.status()["trajectories"]["accepted"]
            wait_until(lambda: service.status()["trajectories"]["accepted"] >= seen + 100, "100 more trajectories")
            rows = service.trajectories()
            status = service.status()

        self.assertEqual(status["reward_spec"], {"name": "consonants", "version": 2})
        self.assertEqual({spec_of(row) for row in rows}, {("vowels", 1), ("consonants", 2)})
        self.assertEqual({spec_of(row) for row in rows[:50]}, {("consonants", 2)})
        for row in rows:
            parts = {part["name"]: part["value"] * part["weight"] for part in row["reward_parts"]}
            self.assertEqual("consonants" in parts, row["reward_spec"] == "consonants", row)
            self.assertAlmostEqual(row["reward"], sum(parts.values()), places=6)

    def test_shift_by_name_and_back(self):
        with Service() as service:
            for name, version in (("cute", 2), ("vowels", 3)):
                result = service.command("shift", name)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(f"{name} (version {version})", result.stdout)
                self.assertEqual(service.status()["reward_spec"], {"name": name, "version": version})

    def test_refusals_change_nothing(self):
        with Service() as service:
            before = service.http("GET", "/admin/v1/reward-spec")
            self.assertEqual(before[1]["etag"], '"1"')
            refused = [
                (412, {"spec": "cute"}, {"If-Match": '"7"'}),
                (400, {"spec": "cute"}, {"If-Match": "seven"}),
                (400, {"spec": "no-such-spec"}, {}),
                (400, {"spec": "../presets/tiny"}, {}),
                (400, {"name": "x", "parts": []}, {}),
                (400, {**CONSONANTS, "extra": 1}, {}),
                (400, {"name": "x", "parts": [{"name": "p", "kind": "unheard_of", "weight": 1}]}, {}),
                (400, '{"spec": ', {}),
                (400, "[]", {}),
            ]
            for code, body, headers in refused:
                status, _, text = service.http("PUT", "/admin/v1/reward-spec", body, headers)
                self.assertEqual(status, code, f"{body}: {text}")
                self.assertTrue(json.loads(text)["error"]["message"])
            result = service.command("shift", "no-such-spec")
            self.assertEqual((result.returncode, len(complaints(result))), (1, 1), result.stderr)

            after = service.http("GET", "/admin/v1/reward-spec")
            self.assertEqual((after[1]["etag"], after[2]), (before[1]["etag"], before[2]))
            self.assertEqual(service.http("PUT", "/admin/v1/reward-spec", {"spec": "cute"}, {"If-Match": '"1"'})[0], 200)


if __name__ == "__main__":
    unittest.main(verbosity=2)
