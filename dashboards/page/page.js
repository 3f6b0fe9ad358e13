// The operator page: what the service says of itself, and what an operator may change.
import { Refused, call, get, listen, parseMetrics } from "./api.js";
import { addMark, addStep, drawCharts, repaint } from "./charts.js";
import { startChat } from "./chat.js";
import { startShifts } from "./shift.js";
import { startTrajectories } from "./trajectories.js";

const $ = (id) => document.getElementById(id);

export function say(text, isError = false) {
  const toast = document.createElement("p");
  toast.textContent = text;
  toast.className = isError ? "error" : "";
  $("toasts").append(toast);
  setTimeout(() => toast.remove(), isError ? 12000 : 5000);
}

// Runs what a button does; says what went wrong.
export async function act(button, what, done) {
  button.disabled = true;
  try {
    const result = await what();
    if (done) say(typeof done === "function" ? done(result) : done);
  } catch (error) {
    const missing = error instanceof Refused && [404, 405, 501].includes(error.status);
    say(missing ? `This service cannot do that: ${error.message}` : error.message, true);
  } finally {
    button.disabled = false;
  }
}

const digits = (value, places = 2) => (Number.isFinite(value) ? value.toFixed(places) : "–");
const percent = (value) => (Number.isFinite(value) ? `${(100 * value).toFixed(1)} %` : "–");

function figure(id, text, tone = "") {
  $(id).textContent = text;
  $(id).parentElement.className = `figure ${tone}`;
}

function showStep(step) {
  figure("f-reward", digits(step.reward_mean, 3));
  figure("f-lag", digits(step.lag_mean, 2));
  $("f-lag-note").textContent = `versions, at most ${step.lag_max}`;
  figure("f-trained", digits(step.trained_tokens_per_second, 0));
  figure("f-generated", digits(step.generated_tokens_per_second, 0));
  figure("f-masked", percent(step.masked_share), step.masked_share > 0.5 ? "bad" : step.masked_share > 0.3 ? "warn" : "");
  const explained = step.explained_variance;
  figure("f-explained", explained === null ? "–" : percent(explained), explained !== null && explained < 0 ? "warn" : "");
  figure("f-entropy", digits(step.entropy), step.entropy < 0.05 ? "bad" : "");
  figure("f-step", digits(step.step_seconds, step.step_seconds < 10 ? 2 : 1));
  $("head-version").textContent = step.policy_version;
}

const tones = { trained: "one", queued: "three", stale: "two", expired: "mark", env_failed: "bad", score_failed: "bad",
  invalid: "four", skipped: "dim", aborted: "bad", duplicate: "dim", group_dropped: "mark", rolled_back: "two" };

function meanMilliseconds(value, name, labels) {
  const seconds = value(`${name}_sum`, labels) / value(`${name}_count`, labels);
  if (!Number.isFinite(seconds)) return "–";
  return seconds >= 1 ? `${seconds.toFixed(1)} s` : `${(1000 * seconds).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
}

function showFlow(status, value, outcomes) {
  const depth = value("queue_depth", { queue: "trajectories" });
  const places = value("queue_capacity", { queue: "trajectories" }) || 1;
  const stage = (name) => meanMilliseconds(value, "stage_duration_seconds", { stage: name });
  const starved = depth < places / 4;
  const stages = [
    ["gate", `${status.capacity}`, "may start now"],
    ["sessions", `${status.sessions}`, "live", undefined, starved],
    ["generator", `${value("generated_tokens_total").toLocaleString()}`, `tokens · ${stage("generate")} a session`],
    ["scorer", `${Math.round(value("reward_count")).toLocaleString()}`, `scored · ${stage("score")} each`],
    ["queue", `${depth} of ${places}`, `waits ${stage("queue")}`, depth / places],
    ["critic", `v${value("value_version")}`, `${stage("value")} each`],
    ["policy", `v${status.policy_version}`, `${stage("learn")} each`, undefined, !starved],
  ];
  $("flow").replaceChildren(...stages.map(([name, number, note, share, limits]) => {
    const item = document.createElement("li");
    const [label, strong, small] = ["span", "b", "em"].map((tag) => document.createElement(tag));
    [label.textContent, strong.textContent, small.textContent] = [name, number, note];
    item.append(label, strong, small);
    if (share !== undefined) {
      const meter = Object.assign(document.createElement("meter"), { min: 0, max: 1, value: share });
      meter.setAttribute("aria-label", "how full the queue is");
      item.append(meter);
    }
    if (limits) item.dataset.limit = "yes";
    return item;
  }));
  $("limit").textContent = starved ? "The learners wait for trajectories: generation is the limit now."
    : "Trajectories wait for the learners: learning is the limit now.";

  const counts = { ...Object.fromEntries(outcomes), queued: status.trajectories.queued };
  const shown = Object.entries(counts).filter(([, count]) => count > 0);
  $("ends").replaceChildren(...shown.map(([name, count]) => {
    const part = document.createElement("i");
    part.style.flexGrow = count;
    part.style.background = `var(--${tones[name] ?? "dim"})`;
    part.title = `${name}: ${count}`;
    return part;
  }));
  $("ends-legend").replaceChildren(...shown.map(([name, count]) => {
    const item = document.createElement("li");
    const number = document.createElement("b");
    number.textContent = count.toLocaleString();
    item.style.setProperty("--tone", `var(--${tones[name] ?? "dim"})`);
    item.append(`${name} `, number);
    return item;
  }));
}

let rollbacks;
function markRollbacks(total, version) {
  if (total > rollbacks) {
    addMark(version, "rolled back");
    say(`Back to an earlier policy, which goes on as version ${version}.`);
  }
  rollbacks = total;
}

let paused = false;
function showState(state) {
  $("state").textContent = state;
  $("state").dataset.is = state;
  paused = state === "paused";
  $("pause").textContent = paused ? "Resume" : "Pause";
}

async function refresh() {
  try {
    const [status, text] = await Promise.all([get("admin/v1/status"), get("metrics")]);
    showState(status.state);
    $("head-version").textContent = status.policy_version;
    $("head-spec").textContent = `${status.reward_spec.name} · ${status.reward_spec.version}`;
    const outcomes = [...text.matchAll(/^millrace_trajectories_total\{outcome="(\w+)"\} (\S+)$/gm)]
      .map(([, name, count]) => [name, Number(count)]);
    const value = parseMetrics(text);
    showFlow(status, value, outcomes);
    markRollbacks(value("rollbacks_total"), status.policy_version);
  } catch (error) {
    if (error.status === 0) showState("not reachable");
  }
}

function startControls() {
  $("pause").addEventListener("click", (event) => act(event.target, async () => {
    const verb = paused ? "resume" : "pause";
    await call("POST", `admin/v1/${verb}`, {});
    await refresh();
    return verb;
  }, (verb) => (verb === "pause" ? "Paused: nothing new begins." : "Resumed.")));
  $("checkpoint").addEventListener("click", (event) =>
    act(event.target, () => call("POST", "admin/v1/checkpoint", {}), "Checkpoint written."));
  $("rollback").addEventListener("click", () => $("ask-version").showModal());
  $("ask-version").addEventListener("close", () => {
    if ($("ask-version").returnValue !== "yes") return;
    const version = Number($("version").value);
    act($("rollback"), () => call("POST", "admin/v1/rollback", { version }));
  });

  const saved = localStorage.getItem("millrace-theme");
  if (saved) document.documentElement.dataset.theme = saved;
  $("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("millrace-theme", document.documentElement.dataset.theme);
    repaint();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
}

startControls();
drawCharts();
const showTrajectories = startTrajectories();
const showHistory = startShifts();
startChat();
get("v1/models").then((models) => { $("head-model").textContent = models.data[0].id; }).catch(() => {});
refresh();
setInterval(refresh, 2000);
setInterval(showTrajectories, 4000);
listen("admin/v1/events", (event, data) => {
  if (event === "step") {
    addStep(data);
    showStep(data);
  } else if (event === "shift") {
    addMark(data.policy_version, data.name);
    showHistory();
    refresh();
  }
}, (live) => { if (!live) refresh(); });
