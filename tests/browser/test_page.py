#!/usr/bin/env python3
"""The operator page in Chromium: it loads, its charts move, a shift made there reaches the service, errors are shown.

`MILLRACE_SCREENSHOTS=FOLDER` keeps pictures of what was seen.
"""
import json
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
from chromium import Chromium  # noqa: E402
from service import Service, wait_until  # noqa: E402

PICTURES = os.environ.get("MILLRACE_SCREENSHOTS")
POINTS = "Chart.getChart('c-reward').data.datasets[0].data.length"


def click(identity):
    return f"document.getElementById('{identity}').click()"


def text(identity):
    return f"document.getElementById('{identity}').textContent"


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = cls.enterClassContext(Service("--set", "model.max_context=600"))
        cls.browser = cls.enterClassContext(Chromium())
        cls.service.wait_for_steps(3)
        cls.browser.open(f"http://{cls.service.address}/")

    def keep(self, name):
        if PICTURES:
            self.browser.screenshot(Path(PICTURES) / f"{name}.png")

    def tearDown(self):
        self.browser.resize(1400, 1000)
        self.browser.dark(False)

    def test_charts_show_what_was_and_move_on(self):
        self.browser.wait(f"{POINTS} >= 3")
        seen = self.browser.evaluate(POINTS)
        self.browser.wait(f"{POINTS} > {seen + 2}")
        for name in ("throughput", "explained", "masked"):
            self.assertGreater(self.browser.evaluate(f"Chart.getChart('c-{name}').data.datasets[0].data.length"), 3)
        self.assertRegex(self.browser.evaluate(text("f-reward")), r"^0\.\d{3}$")
        self.browser.wait(f"{text('state')} === 'running'")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#flow li').length"), 7)
        self.keep("light")

    def test_trajectories_with_text_parts_and_way(self):
        self.browser.wait("document.querySelectorAll('#latest details').length >= 10")
        self.browser.evaluate("document.querySelector('#latest details summary').click()")
        self.browser.wait("document.querySelector('#latest details[open] .way li:nth-child(3)') !== null")
        identity = int(self.browser.evaluate("document.querySelector('#latest details[open]').dataset.id"))
        row = json.loads(self.service.http("GET", f"/admin/v1/trajectories/{identity}")[2])
        self.assertEqual(self.browser.evaluate("document.querySelector('#latest details[open] blockquote').textContent"),
                         row["answer"])
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#latest details[open] .bars div').length"),
                         len(row["reward_parts"]))
        self.keep("trajectory")
        self.browser.evaluate("document.querySelector('#latest details[open] summary').click()")

    def test_shift_with_dry_run_history_and_undo(self):
        self.browser.wait("document.querySelectorAll('#spec option').length >= 5")
        self.browser.evaluate("document.getElementById('spec').value = 'cute'")
        self.browser.evaluate(click("dry-run"))
        self.browser.wait("document.querySelectorAll('#shift-result tr').length > 1")
        self.keep("dry-run")
        before = self.service.status()["reward_spec"]
        self.browser.evaluate("document.getElementById('why').value = 'seen in the test'")
        self.browser.evaluate("document.getElementById('shift').requestSubmit()")
        wait_until(lambda: self.service.status()["reward_spec"]["name"] == "cute", "the shift")
        wait_until(lambda: self.service.trajectories(1)[0]["reward_spec"] == "cute", "answers under the new spec")
        self.browser.wait("[...document.querySelectorAll('#history li')].some((item) => item.textContent.includes('seen in the test'))")
        self.browser.wait(f"{text('head-spec')}.startsWith('cute')")
        self.keep("shifted")
        self.browser.evaluate(click("undo"))
        wait_until(lambda: self.service.status()["reward_spec"]["name"] == before["name"], "back again")

    def test_pause_and_resume(self):
        self.browser.wait(f"{text('state')} === 'running'")
        self.browser.evaluate(click("pause"))
        self.browser.wait(f"{text('state')} === 'paused' && {text('pause')} === 'Resume'")
        self.assertEqual(self.service.status()["state"], "paused")
        self.browser.evaluate(click("pause"))
        self.browser.wait(f"{text('state')} === 'running'")

    def test_errors_are_shown(self):
        self.browser.wait("document.querySelectorAll('#spec option').length >= 5")
        self.browser.evaluate("""(() => { const spec = document.getElementById('spec'); spec.value = '';
            spec.dispatchEvent(new Event('change')); document.getElementById('own').value = '{"name": "x", "parts": []}'; })()""")
        self.browser.evaluate("document.getElementById('shift').requestSubmit()")
        self.browser.wait("[...document.querySelectorAll('#toasts .error')].some((toast) => toast.textContent.includes('parts'))")
        self.browser.evaluate("document.getElementById('own').value = '{'")
        self.browser.evaluate("document.getElementById('shift').requestSubmit()")
        self.browser.wait("[...document.querySelectorAll('#toasts .error')].some((toast) => toast.textContent.includes('not JSON'))")
        self.keep("errors")
        self.browser.evaluate("document.getElementById('toasts').replaceChildren()")

    def test_chat(self):
        self.browser.evaluate("document.getElementById('message').focus()")
        self.browser.type("hello")
        self.browser.press("Enter", text="\r")
        self.browser.wait("document.querySelector('#talk .theirs')?.textContent.length > 1 || document.querySelector('#talk .thumbs')")
        self.browser.wait("document.querySelector('#talk .thumbs')?.textContent.includes('policy ')")
        self.assertEqual(self.browser.evaluate("document.querySelector('#talk .mine').textContent"), "hello")

    def test_phone(self):
        self.browser.resize(390, 844, mobile=True)
        self.browser.wait("innerWidth === 390")
        self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), 390)
        self.keep("phone")

    def test_dark(self):
        self.browser.dark(True)
        background = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
        self.browser.wait(f"Math.max(...{background}) < 60")
        self.keep("dark")

    def test_keyboard_reaches_everything(self):
        self.browser.evaluate("document.activeElement?.blur(); document.getSelection().removeAllRanges();"
                              "document.querySelector('.skip').focus()")
        reached = set()
        for _ in range(60):
            self.browser.press("Tab")
            reached.add(self.browser.evaluate("document.activeElement.id || document.activeElement.tagName"))
        for wanted in ("pause", "checkpoint", "rollback", "theme", "filter", "spec", "why", "dry-run", "undo", "message"):
            self.assertIn(wanted, reached)

    def test_zz_nothing_went_wrong_unseen(self):
        """Last: what the page itself complained of in all of the tests. A refused change is a 4xx in the console."""
        self.assertEqual([line for line in self.browser.console if "Failed to load resource" not in line], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
