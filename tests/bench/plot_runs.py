#!/usr/bin/env python3
"""Draws the reward of one or more runs of `millrace serve --json` over policy versions, as an SVG.

    plot_runs.py OUT.svg [--mark VERSION:TEXT]... LABEL=RUN.jsonl...

Standard library only. A mark is a vertical line, such as the moment of a preference shift.
"""
import argparse
import json

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 380, 60, 150, 30, 45
COLOURS = ["#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed"]


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [(step["policy_version"], step["reward_mean"]) for step in map(json.loads, lines)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("runs", nargs="+", metavar="LABEL=RUN.jsonl")
    parser.add_argument("--mark", action="append", default=[], metavar="VERSION:TEXT")
    arguments = parser.parse_args()
    runs = {label: read(path) for label, path in (run.split("=", 1) for run in arguments.runs)}
    last = max(version for points in runs.values() for version, _ in points)

    def x(version):
        return LEFT + (WIDTH - LEFT - RIGHT) * version / last

    def y(reward):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * reward

    def text(px, py, words, anchor="middle", colour="#555"):
        return f'<text x="{px:.1f}" y="{py:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
             f'font-size="13"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for tenths in range(0, 11, 2):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tenths / 10):.1f}" y2="{y(tenths / 10):.1f}" stroke="#e5e7eb"/>')
        parts.append(text(LEFT - 8, y(tenths / 10) + 4, f"{tenths / 10:.1f}", "end"))
    for version in range(0, last + 1, 10):
        parts.append(text(x(version), HEIGHT - BOTTOM + 18, str(version)))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "policy version"))
    parts.append(text(LEFT, TOP - 12, "mean reward of a step's trajectories", "start"))
    for mark in arguments.mark:
        version, words = mark.split(":", 1)
        px = x(int(version))
        parts.append(f'<line x1="{px:.1f}" x2="{px:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#555" stroke-dasharray="4 4"/>')
        parts.append(text(px + 6, TOP + 12, words, "start"))
    for number, (label, points) in enumerate(runs.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(f"{x(version):.1f},{y(reward):.1f}" for version, reward in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(text(WIDTH - RIGHT + 12, TOP + 16 + 20 * number, label, "start", colour))
    parts.append("</svg>\n")
    with open(arguments.out, "w", encoding="utf-8") as out:
        out.write("\n".join(parts))


if __name__ == "__main__":
    main()
