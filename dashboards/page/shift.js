// The panel that changes what is rewarded: choose or write a spec, try it on what is there, shift, undo.
import { call, get } from "./api.js";
import { act, say } from "./page.js";

const $ = (id) => document.getElementById(id);
let etag = "";

function element(tag, text, className = "") {
  return Object.assign(document.createElement(tag), { textContent: text, className });
}

async function readSpec() {
  const { body, headers } = await call("GET", "admin/v1/reward-spec");
  etag = headers.get("etag") ?? "";
  return body;
}

async function fillChoices() {
  const spec = await readSpec();
  const names = [...new Set([...(spec.available ?? []), spec.name])];
  $("spec").replaceChildren(...names.map((name) => {
    const option = element("option", name === spec.name ? `${name} (in force)` : name);
    option.value = name;
    return option;
  }), Object.assign(element("option", "of my own…"), { value: "" }));
  $("spec").value = spec.name;
  if (!$("own").value) $("own").value = JSON.stringify(spec.spec, null, 2);
}

function chosen() {
  const own = $("spec").value === "";
  let spec = $("spec").value;
  if (own) {
    try {
      spec = JSON.parse($("own").value);
    } catch (error) {
      throw new Error(`The spec is not JSON: ${error.message}`);
    }
  }
  const request = { spec, in_flight: $("in-flight").value };
  if ($("why").value) request.why = $("why").value;
  if (Number($("ramp").value) > 0) request.ramp_s = Number($("ramp").value);
  if (Number($("after").value) > 0) request.after_s = Number($("after").value);
  return request;
}

function showDryRun(result) {
  const table = element("table", "");
  const head = element("tr", "");
  head.append(element("th", "answer"), element("th", "now", "number"), element("th", "then", "number"), element("th", "rank", "number"));
  table.append(head);
  for (const example of result.examples) {
    const row = element("tr", "");
    row.append(element("td", example.answer.slice(0, 120)), element("td", example.before.toFixed(2), "number"),
      element("td", example.after.toFixed(2), "number"), element("td", `${example.rank_before} → ${example.rank_after}`, "number"));
    table.append(row);
  }
  const correlation = result.rank_correlation === null ? "not defined" : result.rank_correlation.toFixed(2);
  const notes = (result.warnings ?? []).map((text) => element("p", text, "error"));
  $("shift-result").replaceChildren(
    element("p", `On the last ${result.compared} trajectories the mean would go from ${result.mean_before.toFixed(3)} to `
      + `${result.mean_after.toFixed(3)}; ranks agree by ${correlation}.`), ...notes, table);
}

async function showHistory() {
  try {
    const { history } = await get("admin/v1/reward-spec/history");
    $("history").replaceChildren(...history.slice().reverse().map((entry) => {
      const item = element("li", "");
      item.append(element("b", `${entry.version} · ${entry.name}`),
        ` ${new Date(1000 * entry.since).toLocaleString()} · ${entry.who}${entry.why ? ` · ${entry.why}` : ""}`);
      return item;
    }));
    await fillChoices();
  } catch { /* an older service without a history */ }
}

export function startShifts() {
  fillChoices().catch((error) => say(error.message, true));
  showHistory();
  $("spec").addEventListener("change", () => { $("own-label").hidden = $("spec").value !== ""; });
  $("dry-run").addEventListener("click", (event) => act(event.target, async () =>
    showDryRun((await call("POST", "admin/v1/reward-spec/dry-run", { spec: chosen().spec, limit: 200 })).body)));
  $("shift").addEventListener("submit", (event) => {
    event.preventDefault();
    act(event.submitter ?? $("shift"), async () => {
      if (!etag) await readSpec();
      const { body, headers } = await call("PUT", "admin/v1/reward-spec", chosen(), { "if-match": etag });
      etag = headers.get("etag") ?? etag;
      $("shift-result").replaceChildren();
      $("why").value = "";
      showHistory();
      return body;
    }, (spec) => (spec.pending ? `${spec.pending.name} is planned.` : `${spec.name} is rewarded now, as version ${spec.version}.`))
      .then(() => readSpec().catch(() => {}));
  });
  $("undo").addEventListener("click", (event) => act(event.target, async () => {
    const { body } = await call("POST", "admin/v1/reward-spec/rollback", { why: "undone on the page" });
    showHistory();
    return body;
  }, (spec) => `Back to ${spec.name}, as version ${spec.version}.`));
  return showHistory;
}
