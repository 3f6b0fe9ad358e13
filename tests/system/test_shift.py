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

    def test_dry_run_changes_nothing(self):
        with Service() as service:
            service.wait_for_steps(2)
            (service.folder / "consonants.json").write_text(json.dumps(CONSONANTS))
            result = service.command("shift", service.folder / "consonants.json", "--dry-run", "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            answer = json.loads(result.stdout)
            self.assertGreaterEqual(answer["compared"], 32)
            rows = {row["id"]: row for row in service.trajectories()}
            for example in answer["examples"]:
                text = rows[example["id"]]["answer"]
                self.assertAlmostEqual(example["before"], rows[example["id"]]["reward"])
                if text.isascii():
                    share = sum(letter in "bcdfgklmnprst" for letter in text) / max(1, len(text))
                    self.assertAlmostEqual(example["after"], share, places=6)
            self.assertEqual(service.status()["reward_spec"], {"name": "vowels", "version": 1})
            self.assertIn("mean reward would go from", service.command("shift", "cute", "--dry-run").stdout)
            for body in ({}, {"spec": "no-such-spec"}, {"spec": "cute", "limit": 0}, {"spec": "cute", "more": 1}):
                self.assertEqual(service.http("POST", "/admin/v1/reward-spec/dry-run", body)[0], 400, body)

    def test_history_and_rollback(self):
        with Service() as service:
            self.assertEqual(service.command("shift", "cute", "--why", "a softer tone").returncode, 0)
            code, headers, _ = service.http("POST", "/admin/v1/reward-spec/rollback", {"why": "too soft"})
            self.assertEqual((code, headers["etag"]), (200, '"3"'))
            self.assertEqual(service.http("POST", "/admin/v1/reward-spec/rollback", {"version": 9})[0], 400)
            history = json.loads(service.http("GET", "/admin/v1/reward-spec/history")[2])["history"]
            log = service.log()
        self.assertEqual([(entry["version"], entry["name"], entry["who"], entry["why"]) for entry in history],
                         [(1, "vowels", "config", ""), (2, "cute", "loopback", "a softer tone"),
                          (3, "vowels", "loopback", "too soft")])
        self.assertEqual(sorted(entry["since"] for entry in history), [entry["since"] for entry in history])
        self.assertIn("audit: loopback PUT /admin/v1/reward-spec -> 200", log)
        self.assertIn("audit: loopback POST /admin/v1/reward-spec/rollback -> 400", log)

    def test_ramp_and_schedule(self):
        with Service() as service:
            result = service.command("shift", "cute", "--ramp", 2, "--after", 0.5, "--json")
            self.assertEqual(json.loads(result.stdout)["pending"]["name"], "cute")
            wait_until(lambda: service.status()["reward_spec"] == {"name": "cute", "version": 11}, "the ramp's end")
            rows = service.trajectories()
        names = {row["reward_spec"] for row in rows}
        self.assertTrue(any(name.startswith("cute-ramp-") for name in names), names)
        for row in rows:  # never parts of two versions in one score
            self.assertAlmostEqual(row["reward"], sum(part["value"] * part["weight"] for part in row["reward_parts"]), places=6)

    def test_in_flight_choices(self):
        for choice in ("finish", "rescore", "expire"):
            with self.subTest(choice), Service() as service:
                service.wait_for_steps(1)
                result = service.command("shift", "cute", "--in-flight", choice)
                self.assertEqual(result.returncode, 0, result.stderr)
                seen = len(service.steps())
                service.wait_for_steps(seen + 2)
                counts = service.status()["trajectories"]
                rows = service.trajectories()
                self.assertEqual(counts["accepted"], counts["trained"] + counts["queued"] + counts["rejected"])
                expired = [row for row in rows if row["outcome"] == "expired"]
                self.assertEqual(bool(expired), choice == "expire")
                self.assertTrue(all(row["reason"] == "preference shift" for row in expired))

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
                (400, '{"spec": "cute", "spec": "vowels"}', {}),
                (400, {"spec": "cute", "in_flight": "forget"}, {}),
                (400, {"spec": "cute", "ramp_s": -1}, {}),
                (400, {"spec": "cute", "after_s": "soon"}, {}),
                (400, {"spec": "cute", "why": ["because"]}, {}),
                (400, {"spec": "cute", "wen": 1}, {}),
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
