#!/usr/bin/env python3
"""Preference shifts of a running service, side by side: how many policy steps until a recipe has adapted.

    shifts.py OUT --recipes sao,running_mean,grpo_dis --seeds 3 --phase 120 [--set key=value]...
    shifts.py OUT --config config/presets/quickstart.json --specs cute,chuunibyou,classical ...

Runs `millrace serve` for each recipe and seed, shifts what is rewarded after every phase of policy steps (on the tiny
model vowels, then some consonants, then digits), and writes OUT/table.md, OUT/shifts.csv and OUT/picture.svg; runs that
are complete in OUT are not done again. Adapted is the first step of a phase from which the mean of the last 128 rewards
(8 steps of 16) is at least 0.9 of the phase's plateau, the mean of its last fifth. A phase whose plateau is no higher than
it began has not adapted.
"""
import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("MILLRACE_PROGRAM", str(ROOT / "build/release/millrace"))
LETTERS = {"consonants": "tnrslh", "digits": "0123456789"}
WINDOW = 8  # steps of 16 trajectories: 128 rewards
COLOURS = ["#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed"]


def spec(name):
    if name in LETTERS:
        return {"name": name, "parts": [{"name": name, "kind": "letter_share", "weight": 1.0, "letters": LETTERS[name]}]}
    lines = (ROOT / "config" / "rewards" / f"{name}.json").read_text().splitlines()
    return json.loads("\n".join(line for line in lines if not line.startswith("//")))


def run(recipe, seed, arguments):
    """Rewards and seconds of all steps."""
    complete = arguments.out / f"{recipe}-seed{seed}.json"
    if complete.exists():
        return json.loads(complete.read_text())
    steps = []
    with tempfile.TemporaryDirectory() as folder:
        command = [PROGRAM, "serve", arguments.config, "--json", "--steps", str(arguments.phase * len(arguments.specs))]
        for entry in (f"recipe={recipe}", f"seed={seed}", f"reward.spec={arguments.specs[0]}",
                      "http.port=0", f"state.directory={folder}/state", *arguments.sets):
            command += ["--set", entry]
        log = Path(folder) / "stderr"
        with open(log, "wb") as stderr:
            service = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True)
        for line in service.stdout:
            steps.append(json.loads(line))
            phase, rest = divmod(len(steps), arguments.phase)
            if rest == 0 and phase < len(arguments.specs):
                address = re.search(r"listening on (http://\S+)", log.read_text()).group(1)
                # Not by `millrace shift`: the tiny model does several steps while a program starts.
                urllib.request.urlopen(urllib.request.Request(
                    f"{address}/admin/v1/reward-spec", data=json.dumps(spec(arguments.specs[phase])).encode(),
                    method="PUT", headers={"Content-Type": "application/json"})).read()
        if service.wait() != 0:
            raise SystemExit(log.read_text())
    result = [step["reward_mean"] for step in steps], [step["step_seconds"] for step in steps]
    complete.write_text(json.dumps(result))
    return result


def smooth(rewards, start):
    return [statistics.mean(rewards[max(start, i - WINDOW + 1):i + 1]) for i in range(start, len(rewards))]


def adaptation(rewards, seconds, start, phase):
    """(plateau, steps, seconds) of the phase that begins at `start`; steps None: not adapted."""
    part = rewards[start:start + phase]
    plateau = statistics.mean(part[-max(1, phase // 5):])
    means = smooth(rewards[:start + phase], start)
    if plateau <= 1.5 * statistics.mean(part[:WINDOW]):
        return plateau, None, None
    for i, mean in enumerate(means):
        if i + 1 >= WINDOW and mean >= 0.9 * plateau:
            return plateau, i + 1, sum(seconds[start:start + i + 1])
    return plateau, None, None


def picture(runs, specs, phase):
    width, height, left, right, top, bottom = 860, 360, 60, 140, 24, 40
    last = phase * len(specs)
    x = lambda step: left + (width - left - right) * step / last
    y = lambda reward: height - bottom - (height - top - bottom) * reward
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             f'font-size="13"><rect width="{width}" height="{height}" fill="white"/>']
    for tenths in range(0, 11, 2):
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y(tenths / 10):.1f}" y2="{y(tenths / 10):.1f}" stroke="#e5e7eb"/>'
                     f'<text x="{left - 8}" y="{y(tenths / 10) + 4:.1f}" text-anchor="end" fill="#555">{tenths / 10:.1f}</text>')
    for number, name in enumerate(specs):
        parts.append(f'<line x1="{x(number * phase):.1f}" x2="{x(number * phase):.1f}" y1="{top}" y2="{height - bottom}" stroke="#999" stroke-dasharray="4 4"/>'
                     f'<text x="{x(number * phase) + 6:.1f}" y="{top - 8}" fill="#555">{name}</text>')
    parts.append(f'<text x="{(left + width - right) / 2}" y="{height - 8}" text-anchor="middle" fill="#555">policy version</text>')
    for number, recipe in enumerate(dict.fromkeys(recipe for recipe, _, _, _ in runs)):
        curves = [rewards for name, _, rewards, _ in runs if name == recipe]
        mean = smooth([statistics.mean(step) for step in zip(*curves)], 0)
        points = " ".join(f"{x(i + 1):.1f},{y(value):.1f}" for i, value in enumerate(mean))
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
                     f'<text x="{width - right + 10}" y="{top + 16 + 20 * number}" fill="{colour}">{recipe}</text>')
    return "\n".join(parts) + "</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--config", default="config/presets/tiny.json")
    parser.add_argument("--specs", default="vowels,consonants,digits")
    parser.add_argument("--recipes", default="sao,running_mean,grpo_dis")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--phase", type=int, default=120, help="policy steps between two shifts")
    parser.add_argument("--set", action="append", default=[], dest="sets")
    arguments = parser.parse_args()
    arguments.specs = arguments.specs.split(",")
    arguments.out.mkdir(parents=True, exist_ok=True)
    runs = []
    for seed in range(arguments.seeds):
        for recipe in arguments.recipes.split(","):
            runs.append((recipe, seed, *run(recipe, seed, arguments)))
            print(f"{recipe} seed {seed}: done", flush=True)

    rows = []
    for recipe, seed, rewards, seconds in runs:
        for number, name in enumerate(arguments.specs):
            plateau, steps, time_taken = adaptation(rewards, seconds, number * arguments.phase, arguments.phase)
            rows.append({"recipe": recipe, "seed": seed, "phase": name, "plateau": round(plateau, 4),
                         "steps": steps, "seconds": None if time_taken is None else round(time_taken, 2)})
    with open(arguments.out / "shifts.csv", "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    lines = ["| recipe | phase | plateau | steps to 0.9 of it | seconds | adapted |", "| --- | --- | --- | --- | --- | --- |"]
    for recipe in dict.fromkeys(row["recipe"] for row in rows):
        for name in arguments.specs:
            mine = [row for row in rows if row["recipe"] == recipe and row["phase"] == name]
            done = [row for row in mine if row["steps"]]
            spread = lambda key, of: ("" if not of else f"{statistics.mean(row[key] for row in of):.2f}" +
                                      (f" ± {statistics.stdev(row[key] for row in of):.2f}" if len(of) > 1 else ""))
            lines.append(f"| `{recipe}` | {name} | {spread('plateau', mine)} | {spread('steps', done)} | "
                         f"{spread('seconds', done)} | {len(done)} of {len(mine)} |")
    (arguments.out / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (arguments.out / "picture.svg").write_text(picture(runs, arguments.specs, arguments.phase), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
