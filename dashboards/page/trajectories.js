// The latest trajectories: text, reward parts, and the way each took.
import { get } from "./api.js";

const $ = (id) => document.getElementById(id);

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function partBar({ name, value, weight }) {
  const bar = element("div");
  const meter = Object.assign(document.createElement("meter"), { min: 0, max: 1, value: Math.abs(value) });
  meter.setAttribute("aria-label", name);
  bar.append(element("span", "", name), meter, element("span", "number", `${Number(value).toFixed(3)} × ${weight}`));
  return bar;
}

function wayOf(row) {
  const seconds = (value) => (value >= 1 ? `${value.toFixed(1)} s` : `${(1000 * value).toFixed(1)} ms`);
  const steps = [["generated", row.seconds.generate], ["environment", row.seconds.environment], ["scored", row.seconds.score]]
    .filter(([, value]) => value > 0).map(([name, value]) => `${name} ${seconds(value)}`);
  const versions = row.policy_version_oldest === row.policy_version_newest
    ? `sampled by v${row.policy_version_oldest}` : `sampled by v${row.policy_version_oldest}–v${row.policy_version_newest}`;
  const end = row.outcome === "trained" ? `trained in v${row.version}` : row.outcome === "queued" ? "waits for the learner"
    : `${row.outcome}: ${row.reason}`;
  if (row.settled) steps.push(`waited ${seconds(Math.max(0, row.settled - row.created - row.seconds.generate))}`);
  return [versions, ...steps, end];
}

function entry(row) {
  const details = element("details");
  details.dataset.id = row.id;
  const summary = element("summary");
  summary.append(element("span", "dim", row.id), element("span", `tag ${row.state}`, row.outcome),
    element("span", "text", row.answer || "(no text)"),
    element("span", "number", typeof row.reward === "number" ? row.reward.toFixed(3) : "–"));
  const more = element("div", "more");
  const way = element("ul", "way");
  way.append(...wayOf(row).map((step) => element("li", "", step)));
  const bars = element("div", "bars");
  bars.append(...row.reward_parts.map(partBar));
  more.append(element("p", "dim", row.task), element("blockquote", "", row.answer), bars,
    element("p", "note", `Reward spec ${row.reward_spec}, version ${row.reward_spec_version} · ${row.action_tokens} action tokens of `
      + `${row.tokens} · ${row.turns} ${row.turns === 1 ? "turn" : "turns"} · ${row.ending}`), way);
  details.append(summary, more);
  return details;
}

// Returns what draws the list again. Nothing moves while somebody reads one or has the keyboard in the list.
export function startTrajectories() {
  async function show(force = false) {
    const list = $("latest");
    if (!force && (list.querySelector("details[open]") || list.contains(document.activeElement))) return;
    const state = $("filter").value;
    try {
      const { trajectories } = await get(`admin/v1/trajectories?limit=18${state ? `&state=${state}` : ""}`);
      list.replaceChildren(...(trajectories.length ? trajectories.map(entry) : [element("p", "dim", "None yet.")]));
    } catch (error) {
      list.replaceChildren(element("p", "error", error.message));
    }
  }
  $("filter").addEventListener("change", () => show(true));
  show();
  return () => show();
}
