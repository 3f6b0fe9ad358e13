#!/usr/bin/env python3
"""Boards, rules and the table of metrics are held against a running service: every query gives data, no query names a
metric that does not exist, and what dashboard-linter asks of a board holds.

`test_dashboards.py --write` writes dashboards/metrics.md anew, after a metric was added or changed.
"""
import json
import re
import subprocess
import sys
import unittest

from prometheus import Prometheus
from service import ROOT, Service, wait_until

sys.path.insert(0, str(ROOT / "dashboards"))
import boards  # noqa: E402

FOLDER = ROOT / "dashboards"
METRIC = re.compile(r"\b((?:millrace|process)_[a-z0-9_]+|up)\b(?=[{\[ )]|$)")
FIXED = {"$__rate_interval": "15s", "$job": "millrace", "$instance": ".+"}
# Grafana's names of units; the ones we use are looked up here by dashboard-linter's rule.
UNITS = {"none", "s", "cps", "reqps", "percentunit", "bytes", "sci"}


def filled_in(expression):
    for name, value in FIXED.items():
        expression = expression.replace(name, value)
    return expression


def without_comparison(expression):
    """An alert's expression without what makes it empty as long as all is well."""
    left = expression.split(" and ")[0]
    return re.sub(r" (>|<|==) -?[0-9.]+", "", left)


def read_rules(file):
    """Name and expression of each rule; a folded expression goes over the lines that are indented further."""
    rules, name, lines = [], None, (FOLDER / file).read_text().splitlines()
    for number, line in enumerate(lines):
        if found := re.match(r"\s+- (?:alert|record): (\S+)", line):
            name = found[1]
        elif found := re.match(r"(\s+)expr: (.*)", line):
            expression = found[2]
            if expression == ">-":
                following = lines[number + 1:]
                deep = [text.startswith(found[1] + "  ") for text in following] + [False]
                expression = " ".join(text.strip() for text in following[:deep.index(False)])
            rules.append((name, expression))
    return rules


RULES = read_rules("recording.yml")
ALERTS = read_rules("alerts.yml")


def panels_of(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def metrics_table(text):
    """A row a metric out of what a service serves: name, type, labels with their values, meaning."""
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.M))
    types = dict(re.findall(r"^# TYPE (\S+) (.*)$", text, re.M))
    rows = []
    for name, kind in sorted(types.items()):
        sample = name + (r"_bucket" if kind == "histogram" else "")
        labels = {}
        for pairs in re.findall(rf"^{sample}\{{(.*)\}} ", text, re.M):
            for label, value in re.findall(r'(\w+)="([^"]*)"', pairs):
                labels.setdefault(label, []).append(value)
        labels.pop("le", None)
        open_ended = name.startswith("millrace_http_") or name == "millrace_build_info"
        shown = ", ".join(label if open_ended else label + "=" + "/".join(dict.fromkeys(values))
                          for label, values in sorted(labels.items()))
        rows.append(f"| `{name}` | {kind} | {shown} | {helps.get(name, '')} |")
    return ("# Metrics\n\nWhat `GET /metrics` serves, as tests/system/test_dashboards.py read it from a running service "
            "(`--write` writes this file).\n\n| name | type | labels | meaning |\n| --- | --- | --- | --- |\n"
            + "\n".join(rows) + "\n")


class Live(unittest.TestCase):
    """One service and one Prometheus for all tests: they learn while the tests ask."""

    @classmethod
    def setUpClass(cls):
        cls.service = cls.enterClassContext(Service())
        rules = {"rule_files": [str(FOLDER / "recording.yml"), str(FOLDER / "alerts.yml")]}
        cls.prometheus = cls.enterClassContext(Prometheus(cls.service.folder, cls.service.address, rules))
        cls.service.wait_for_steps(2)
        # Who had no reward before a shift has it back at once.
        wait_until(lambda: cls.service.steps()[-1]["reward_mean"] > 0.1, "something to lose by the shift")
        wait_until(lambda: cls.prometheus.value("max(millrace_reward_spec_version)") == 1, "the spec before the shift")
        cls.service.http("PUT", "/admin/v1/reward-spec", {"spec": "cute"})
        cls.service.wait_for_steps(6)
        cls.service.http("GET", "/admin/v1/status")
        cls.metrics = cls.service.http("GET", "/metrics")[2]
        cls.names = set(re.findall(r"^([a-z][a-z0-9_]*)[{ ]", cls.metrics, re.M)) | {"up"}
        wait_until(lambda: (cls.prometheus.value("max(changes(millrace_policy_version[15s]))") or 0) > 3, "scrapes")

    def check_gives_data(self, where, expression):
        unknown = set(METRIC.findall(expression)) - self.names
        self.assertFalse(unknown, f"{where}: no such metric")
        try:
            wait_until(lambda: self.prometheus.series(filled_in(expression)), expression, 20)
        except AssertionError as error:
            self.fail(f"{where}: {error}")

    def test_every_panel_gives_data(self):
        for name, board in boards.BOARDS.items():
            for panel in panels_of(board):
                for target in panel["targets"]:
                    with self.subTest(board=name, panel=panel["title"], target=target["refId"]):
                        self.check_gives_data(f"{name}: {panel['title']}", target["expr"])
            for annotation in board["annotations"]["list"]:
                self.check_gives_data(f"{name}: {annotation['name']}", without_comparison(annotation["expr"]))

    def test_every_rule_gives_data(self):
        self.assertGreater(len(RULES), 5)
        self.assertGreater(len(ALERTS), 10)
        recorded = {name for name, _ in RULES}
        for name, expression in RULES:
            with self.subTest(rule=name):
                self.check_gives_data(name, expression)
                wait_until(lambda: self.prometheus.series(name), f"{name} is recorded", 20)
        for name, expression in ALERTS:
            with self.subTest(alert=name):
                self.check_gives_data(name, without_comparison(expression))
                self.assertLessEqual(set(re.findall(r"job:\w+:\w+", expression)), recorded)

    def test_a_shift_shows(self):
        wait_until(lambda: self.prometheus.value("max(changes(millrace_reward_spec_version[10m]))") == 1, "the shift")
        wait_until(lambda: self.prometheus.value("max_over_time(millrace_preference_recovering[10m])") == 1, "recovery")

    def test_no_alert_fires_when_all_is_well(self):
        firing = self.prometheus.series('ALERTS{alertstate="firing"}')
        # But for the shift: a model of random bytes never writes cute words, and says so.
        names = {alert["metric"]["alertname"] for alert in firing} - {"MillracePreferenceRecoverySlow"}
        self.assertEqual(names, set())

    def test_table_of_metrics(self):
        """Nothing in it is made up; what is new goes in with --write."""
        listed = set(re.findall(r"^\| `(\w+)` ", (FOLDER / "metrics.md").read_text(), re.M))
        served = set(re.findall(r"^# TYPE (\S+)", self.metrics, re.M))
        self.assertGreater(len(listed), 40)
        self.assertEqual(listed - served, set(), "run tests/system/test_dashboards.py --write")
        if served - listed:
            print("not in dashboards/metrics.md yet:", ", ".join(sorted(served - listed)))


class Boards(unittest.TestCase):
    """The rules of Grafana's dashboard-linter, which is written in Go and is not to be had here."""

    def test_files_are_what_boards_py_writes(self):
        for name in boards.BOARDS:
            self.assertEqual((FOLDER / f"{name}.json").read_text(), boards.text_of(name), "run dashboards/boards.py")

    def test_board_itself(self):
        self.assertEqual(len({board["uid"] for board in boards.BOARDS.values()}), len(boards.BOARDS))
        for board in boards.BOARDS.values():
            self.assertFalse(board["editable"])
            variables = {variable["name"]: variable for variable in board["templating"]["list"]}
            self.assertEqual(variables["datasource"]["type"], "datasource")
            self.assertEqual(variables["datasource"]["label"], "Data source")
            for name in ("job", "instance"):
                variable = variables[name]
                self.assertEqual((variable["type"], variable["label"], variable["datasource"]["uid"]),
                                 ("query", name, "$datasource"))
                self.assertEqual((variable["multi"], variable["allValue"], variable["refresh"]), (True, ".+", 2))
                self.assertRegex(variable["query"]["query"], r"^label_values\(.+, \w+\)$")

    def test_grid(self):
        for board in boards.BOARDS.values():
            taken = set()
            for panel in board["panels"]:
                place = panel["gridPos"]
                self.assertLessEqual(place["x"] + place["w"], 24)
                cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                         for y in range(place["y"], place["y"] + place["h"])}
                self.assertFalse(taken & cells, panel["title"])
                taken |= cells
            ids = [panel["id"] for panel in board["panels"]]
            self.assertEqual(len(set(ids)), len(ids))

    def test_panels(self):
        for board in boards.BOARDS.values():
            for panel in panels_of(board):
                with self.subTest(board=board["title"], panel=panel["title"]):
                    self.assertTrue(panel["title"] and panel["description"])
                    self.assertEqual(panel["datasource"]["uid"], "${datasource}")
                    self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS)
                    self.assertTrue(panel["targets"])
                    self.assertTrue(panel["fieldConfig"]["defaults"]["thresholds"]["steps"])

    def test_queries(self):
        for board in boards.BOARDS.values():
            for panel in panels_of(board):
                for target in panel["targets"]:
                    expression = target["expr"]
                    with self.subTest(panel=panel["title"], expression=expression):
                        self.assertEqual(target["datasource"]["uid"], "${datasource}")
                        for selector in re.findall(r"\b(?:millrace_\w+|process_\w+|up)\b(\{[^}]*\})?", expression):
                            self.assertIn('job=~"$job"', selector)
                            self.assertIn('instance=~"$instance"', selector)
                        for function, interval in re.findall(r"(\w+)\([a-z_]+\{[^}]*\}\[([^\]]*)\]", expression):
                            self.assertEqual(interval, "$__rate_interval", function)
                        for counter in re.finditer(r"(millrace|process)_\w+_total\{", expression):
                            before = expression[:counter.start()]
                            self.assertTrue(before.endswith(("rate(", "increase(")), f"{counter[0]} without a rate")


class Rules(unittest.TestCase):
    def test_promtool(self):
        for arguments in (["check", "rules", "alerts.yml", "recording.yml"],
                          ["test", "rules", str(ROOT / "tests/dashboards/alerts.yml")]):
            result = subprocess.run(["promtool", *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_every_alert_has_a_test_and_a_runbook(self):
        tested = re.findall(r"- name: (\w+)", (ROOT / "tests/dashboards/alerts.yml").read_text())
        names = [name for name, _ in ALERTS]
        self.assertEqual(sorted(names), sorted(tested))
        self.assertEqual(sorted(names), sorted(path.stem for path in (FOLDER / "runbooks").glob("*.md")))
        for name in names:
            self.assertIn(f"runbooks/{name}.md", (FOLDER / "alerts.yml").read_text())


def write_table():
    with Service() as service:
        service.wait_for_steps(1)
        service.http("GET", "/admin/v1/status")
        (FOLDER / "metrics.md").write_text(metrics_table(service.http("GET", "/metrics")[2]))


if __name__ == "__main__":
    write_table() if sys.argv[1:] == ["--write"] else unittest.main(verbosity=2)
