#!/usr/bin/env python3
"""The Grafana boards as data: run it to write overview.json, learning.json, flow.json and operation.json beside it.

A panel is a title, what it means, a unit and its queries; what all panels share (grid, data source, colours, shift marks)
is written once below. tests/system/test_dashboards.py evaluates every query against a running service.
"""
import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
GREEN, YELLOW, RED, BLUE = "green", "yellow", "red", "blue"


def m(name, **labels):
    """A selector of one of our metrics; a value that begins with ~ is a regular expression."""
    pairs = ['job=~"$job"', 'instance=~"$instance"']
    pairs += [f'{key}=~"{value[1:]}"' if value.startswith("~") else f'{key}="{value}"' for key, value in labels.items()]
    return f"{name if name.startswith('process_') or name == 'up' else 'millrace_' + name}{{{', '.join(pairs)}}}"


def rate(name, by="", **labels):
    grouped = f" by ({by}) " if by else ""
    return f"sum{grouped}(rate({m(name, **labels)}[$__rate_interval]))"


def quantile(q, name, by="", **labels):
    return f"histogram_quantile({q}, {rate(name + '_bucket', f'le, {by}' if by else 'le', **labels)})"


def mean(name, by="", **labels):
    return f"{rate(name + '_sum', by, **labels)} / {rate(name + '_count', by, **labels)}"


def q(expr, legend="__auto", **more):
    return {"expr": expr, "legendFormat": legend, **more}


def steps(*pairs):
    """Thresholds: a colour from a value on; the first value is minus infinity."""
    return {"mode": "absolute", "steps": [{"color": color, "value": value} for value, color in pairs]}


PLAIN = steps((None, GREEN))


def panel(kind, title, description, unit, *queries, width=12, height=8, thresholds=PLAIN, low=None, high=None,
          right=None, stack=False, options=None, mappings=None):
    """`right`: (regular expression of series, unit) for a second axis."""
    defaults = {"unit": unit, "thresholds": thresholds, "color": {"mode": "thresholds" if kind in ("stat", "gauge") else
                                                                  "palette-classic"}, "mappings": mappings or []}
    if low is not None:
        defaults["min"] = low
    if high is not None:
        defaults["max"] = high
    overrides = []
    if kind == "timeseries":
        marked = len(thresholds["steps"]) > 1
        defaults["custom"] = {"lineWidth": 2, "fillOpacity": 30 if stack else 8, "showPoints": "never",
                              "spanNulls": 300000, "stacking": {"mode": "normal" if stack else "none", "group": "A"},
                              "thresholdsStyle": {"mode": "dashed" if marked else "off"}}
    if right:
        series, right_unit = right
        overrides.append({"matcher": {"id": "byRegexp", "options": series},
                          "properties": [{"id": "custom.axisPlacement", "value": "right"},
                                         {"id": "unit", "value": right_unit}, {"id": "min", "value": 0},
                                         {"id": "custom.fillOpacity", "value": 0},
                                         {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 6]}}]})
    targets = [{"refId": chr(ord("A") + i), "datasource": DATASOURCE, "range": True, "instant": False,
                "editorMode": "code", **query} for i, query in enumerate(queries)]
    shown = {
        "stat": {"colorMode": "value", "graphMode": "area", "textMode": "auto", "justifyMode": "auto",
                 "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}},
        "timeseries": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
                       "tooltip": {"mode": "multi", "sort": "desc"}},
        "heatmap": {"calculate": False, "color": {"mode": "scheme", "scheme": "Viridis", "steps": 64},
                    "yAxis": {"unit": unit}, "cellGap": 1, "tooltip": {"show": True, "yHistogram": False}},
        "table": {"showHeader": True},
        "state-timeline": {"mergeValues": True, "showValue": "always", "rowHeight": 0.9},
    }[kind]
    return {"type": kind, "title": title, "description": description, "datasource": DATASOURCE,
            "gridPos": {"w": width, "h": height}, "targets": targets,
            "fieldConfig": {"defaults": defaults, "overrides": overrides}, "options": {**shown, **(options or {})}}


def stat(title, description, unit, expr, width=4, **more):
    return panel("stat", title, description, unit, q(expr), width=width, height=4, **more)


def lines(*arguments, **more):
    return panel("timeseries", *arguments, **more)


def heatmap(title, description, unit, name, **labels):
    return panel("heatmap", title, description, unit,
                 q(f"sum by (le) (increase({m(name + '_bucket', **labels)}[$__rate_interval]))", "{{le}}",
                   format="heatmap"))


def row(title):
    return {"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": {"w": 24, "h": 1}}


def variable(name, label, query):
    return {"name": name, "label": label, "type": "query", "datasource": {"type": "prometheus", "uid": "$datasource"},
            "query": {"query": query, "refId": name}, "definition": query, "refresh": 2, "multi": True,
            "includeAll": True, "allValue": ".+", "current": {"text": ["All"], "value": ["$__all"]}, "sort": 1}


TEMPLATING = {"list": [
    {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1,
     "current": {}, "hide": 0},
    variable("job", "job", "label_values(millrace_build_info, job)"),
    variable("instance", "instance", 'label_values(millrace_build_info{job=~"$job"}, instance)'),
]}

ANNOTATIONS = {"list": [
    {"name": "Preference shifts", "enable": True, "datasource": DATASOURCE, "iconColor": "purple",
     "expr": f"changes({m('reward_spec_version')}[$__rate_interval]) > 0", "step": "15s",
     "titleFormat": "Preference shift", "textFormat": "What is rewarded was replaced on {{instance}}"},
    {"name": "Restarts", "enable": True, "datasource": DATASOURCE, "iconColor": "red",
     "expr": f"changes({m('process_start_time_seconds')}[$__rate_interval]) > 0", "step": "15s",
     "titleFormat": "Restart", "textFormat": "The process on {{instance}} was started"},
]}


def board(name, title, description, panels):
    x = y = height = 0
    for number, one in enumerate(panels, 1):
        place = one["gridPos"]
        if x + place["w"] > 24:
            x, y, height = 0, y + height, 0
        one["id"] = number
        one["gridPos"] = {"h": place["h"], "w": place["w"], "x": x, "y": y}
        x, height = x + place["w"], max(height, place["h"])
    others = [{"type": "dashboards", "title": "Millrace", "tags": ["millrace"], "asDropdown": False, "icon": "dashboard",
               "includeVars": True, "keepTime": True, "targetBlank": False}]
    return {"id": None, "uid": f"millrace-{name}", "title": title, "description": description, "tags": ["millrace"],
            "timezone": "browser", "schemaVersion": 39, "version": 1, "editable": False, "graphTooltip": 1,
            "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "annotations": ANNOTATIONS,
            "templating": TEMPLATING, "links": others, "panels": panels}


LAG = {"stage": "total", "verdict": "trained"}
MASKED = f"{rate('masked_tokens_total')} / {rate('trained_tokens_total')}"
SINCE_STEP = f"time() - max({m('train_last_step_timestamp_seconds', learner='policy')})"
STALE = f"{rate('trajectories_total', outcome='stale')} / {rate('trajectories_total')}"

OVERVIEW = board("overview", "Millrace / Overview", "Does it learn, how fast, how stale, and what is it rewarded for?", [
    row("Now"),
    stat("Policy version", "Newest published policy; one more a policy step.", "none", f"max({m('policy_version')})"),
    stat("Reward", "Mean reward of the last 128 trajectories.", "none", f"avg({m('reward_mean', window='128')})"),
    stat("Reward spec", "Version of the reward spec in force; it grows by one a preference shift.", "none",
         f"max({m('reward_spec_version')})", thresholds=steps((None, "purple"))),
    stat("Trained", "Action tokens in published policy steps, a second.", "cps", rate("trained_tokens_total")),
    stat("Policy lag, p95", "Versions the trained tokens' policies were behind the learner: 95 % had at most this many.",
         "none", quantile(0.95, "policy_lag_versions", **LAG), thresholds=steps((None, GREEN), (8, YELLOW), (16, RED))),
    stat("Since the last policy step", "Much more than a step usually takes: the learner starves or hangs.", "s",
         SINCE_STEP, thresholds=steps((None, GREEN), (300, YELLOW), (900, RED))),
    row("Throughput against policy lag"),
    lines("Throughput against policy lag",
          "Tokens a second on the left, lag of trained tokens in versions on the right: more of one usually costs more of "
          "the other.", "cps", q(rate("generated_tokens_total"), "generated"), q(rate("trained_tokens_total"), "trained"),
          q(quantile(0.5, "policy_lag_versions", **LAG), "lag p50"),
          q(quantile(0.95, "policy_lag_versions", **LAG), "lag p95"), right=("lag.*", "none"), low=0, width=24, height=10),
    row("Reward"),
    lines("Reward, with preference shifts",
          "Mean of the last 128 trajectories, mean and 10th and 90th percentile of those that just arrived. A purple mark: "
          "what is rewarded was replaced.", "none", q(f"avg({m('reward_mean', window='128')})", "mean of the last 128"),
          q(mean("reward"), "mean of the newest"), q(quantile(0.1, "reward"), "p10"), q(quantile(0.9, "reward"), "p90")),
    lines("Preference shifts", "Reward specs that were put in force while the service ran, by the interval shown.", "none",
          q(f"sum(increase({m('preference_shifts_total')}[$__rate_interval]))", "shifts"), low=0),
    lines("Preference recovery",
          "Policy steps since the last shift, until the mean reward is back at 0.9 of its level before; flat: recovered.",
          "none", q(f"max({m('preference_recovery_steps')})", "steps"),
          q(f"max({m('preference_recovery_seconds')})", "seconds"),
          q(f"max({m('preference_recovering')})", "1 = recovering"), right=("seconds", "s"), low=0),
    row("What limits the service now"),
    lines("What the gate says",
          "granted: a session may start at once. waits for sessions: the generator is the limit, all places are taken. "
          "waits for staleness: the learner is the limit, more trajectories would be too old when their turn comes.",
          "cps", q(rate("gate_decisions_total", decision="grant"), "granted"),
          q(rate("gate_decisions_total", decision="wait", reason="sessions"), "waits for sessions"),
          q(rate("gate_decisions_total", decision="wait", reason="staleness"), "waits for staleness"), low=0),
    lines("Fill", "Share of the queue's places and of the critic's and policy's time that is taken. At 100 %, that is the "
          "limit.", "percentunit",
          q(f"sum({m('queue_depth')}) / sum({m('queue_capacity')})", "queue"),
          q(rate("train_step_duration_seconds_sum", "learner"), "{{learner}} steps"), low=0, high=1,
          thresholds=steps((None, GREEN), (0.95, YELLOW))),
])

LEARNING = board("learning", "Millrace / Learning", "Is what the learner does sound?", [
    row("Trust region"),
    lines("Masked share", "Action tokens outside the trust region, left out of the gradient: low, the policy moved away "
          "from them; high, towards them. Above a half, most of the work is thrown away.", "percentunit",
          q(f"{rate('masked_tokens_total', 'side')} / ignoring (side) group_left () {rate('trained_tokens_total')}",
            "{{side}}"), q(MASKED, "both"), low=0, thresholds=steps((None, GREEN), (0.3, YELLOW), (0.5, RED))),
    lines("Effective sample size", "Share of the last batch's action tokens that an equally weighted batch would need for "
          "the same variance: 1 is on-policy.", "percentunit", q(m("effective_sample_size_ratio"), "{{instance}}"),
          low=0, high=1, thresholds=steps((None, RED), (0.3, YELLOW), (0.6, GREEN))),
    lines("Importance ratio", "Of the policy to the one that sampled, over the last batch's tokens: 1st, 50th and 99th "
          "percentile. Wider apart: more is masked.", "none", q(m("importance_ratio"), "p{{percentile}}"), low=0),
    lines("Guard", "Collapses that the guard has told of: no exploring, nearly all masked, reward far below its best, "
          "gradients exploding.", "none",
          q(f"sum(increase({m('guard_alarms_total')}[$__rate_interval]))", "alarms"), low=0,
          thresholds=steps((None, GREEN), (1, RED))),
    row("Critic"),
    lines("Explained variance", "Share of the returns' variance that the value model explains before its update; 1 is "
          "perfect, 0 no better than the mean, a gap: undefined.", "percentunit",
          q(m("explained_variance_ratio"), "{{instance}}"), high=1,
          thresholds=steps((None, RED), (0, YELLOW), (0.3, GREEN))),
    lines("Versions of policy and critic", "Batches each has learned from; the critic begins earlier.", "none",
          q(m("policy_version"), "policy"), q(m("value_version"), "critic"), low=0),
    lines("Value loss", "0.5 times the mean squared error of the last batch's values.", "none", q(m("value_loss"), "loss"),
          low=0),
    row("Policy"),
    lines("Entropy", "Mean entropy of the policy on the last batch. Near zero it has stopped exploring, and a preference "
          "shift will take long.", "none", q(m("entropy_nats"), "nats"), low=0,
          thresholds=steps((None, RED), (0.1, YELLOW), (0.5, GREEN))),
    lines("KL from the sampling policy", "Mean over the last batch's tokens, in nats; grows with lag and learning rate.",
          "none", q(m("kl_nats"), "nats")),
    lines("Gradient norm", "Before clipping.", "none", q(m("gradient_norm"), "{{learner}}"), low=0),
    lines("Learning rate", "Of the last step.", "sci", q(m("learning_rate"), "{{learner}}"), low=0),
    row("Steps"),
    lines("Steps a minute", "Batches learned, and those that made no step because something was not finite.", "none",
          q(f"60 * {rate('train_steps_total', 'learner')}", "{{learner}}"),
          q(f"60 * {rate('train_steps_skipped_total', 'learner')}", "{{learner}}, skipped"), low=0),
    lines("Time of a step", "p95 of the time a learner spends on the end of a batch.", "s",
          q(quantile(0.95, "train_step_duration_seconds", "learner"), "{{learner}}"), low=0),
    lines("Waiting for other replicas", "Share of its time that a learner waits for the others' gradients; 0 for a service "
          "that learns alone. High at all but one: that one is the slowest.", "percentunit",
          q(rate("replica_wait_seconds_total", "learner"), "{{learner}}"), low=0, high=1),
    heatmap("Reward distribution", "Trajectories by total reward.", "none", "reward"),
    lines("Tokens of a trajectory", "Mean action tokens: a policy that writes ever longer or shorter shows here.", "none",
          q(mean("trajectory_tokens", outcome="trained"), "trained"), low=0),
])

FLOW = board("flow", "Millrace / Flow", "Where trajectories are, how long they take, and what becomes of them.", [
    row("Ways and ends"),
    lines("What becomes of trajectories", "Each ends in exactly one of these.", "cps",
          q(rate("trajectories_total", "outcome"), "{{outcome}}"), stack=True, low=0),
    lines("Stale share", "Trajectories dropped because their lag grew above max_lag before the learner took them: work "
          "for nothing. Lower sessions.limit, or raise max_lag.", "percentunit", q(STALE, "stale"), low=0,
          thresholds=steps((None, GREEN), (0.1, YELLOW), (0.3, RED))),
    row("Stages"),
    lines("Time in each stage, median", "From the permit to the gradient.", "s",
          q(quantile(0.5, "stage_duration_seconds", "stage"), "{{stage}}"), low=0),
    lines("Time in each stage, p95", "From the permit to the gradient.", "s",
          q(quantile(0.95, "stage_duration_seconds", "stage"), "{{stage}}"), low=0),
    row("Gate and queue"),
    lines("Queue", "Accepted trajectories in no published version yet, and how many fit without becoming too old.",
          "none", q(m("queue_depth"), "waiting"), q(m("queue_capacity"), "places"), low=0),
    lines("Sessions and capacity", "Live training sessions, and how many more may start now.", "none",
          q(m("sessions"), "{{state}}"), q(m("gate_capacity"), "may start"), low=0),
    lines("Gate decisions", "What the gate said, and why.", "cps",
          q(rate("gate_decisions_total", "decision, reason"), "{{decision}}: {{reason}}"), low=0),
    lines("Mailboxes", "Messages that wait for an actor. One that grows and grows has an actor that cannot keep up.",
          "none", q(m("mailbox_depth"), "{{actor}}"), low=0, thresholds=steps((None, GREEN), (1000, RED))),
    row("Lag"),
    heatmap("Lag of trained tokens", "Versions behind the learner, token by token.", "none", "policy_lag_versions", **LAG),
    lines("Where lag comes from", "Mean versions a trained token aged while its session still ran, and in the queue.",
          "none", q(mean("policy_lag_versions", "stage", verdict="trained", stage="~in_.*"), "{{stage}}"), stack=True,
          low=0),
    lines("Lag of rejected tokens", "Mean versions behind the learner of what was dropped as stale.", "none",
          q(mean("policy_lag_versions", verdict="rejected", stage="total"), "rejected"), low=0),
    lines("Reward lag", "Trained trajectories whose score belongs to an older reward spec, mean versions behind.", "none",
          q(mean("reward_lag_versions"), "versions"), low=0),
    row("Tokens"),
    lines("Generator", "Tokens a second: prompts read, and tokens sampled.", "cps",
          q(rate("prompt_tokens_total"), "prompt"), q(rate("generated_tokens_total"), "generated"), low=0),
    lines("Do drops favour short answers?", "Mean action tokens by what became of a trajectory. If what is trained is "
          "shorter than what is dropped, the policy learns to be brief.", "none",
          q(mean("trajectory_tokens", "outcome"), "{{outcome}}"), low=0),
    lines("Environment failures", "By environment and kind; a failure is never a zero reward.", "cps",
          q(rate("env_errors_total", "environment, kind"), "{{environment}}: {{kind}}"), low=0),
])

OPERATION = board("operation", "Millrace / Operation", "Is the service itself well?", [
    row("Applications"),
    lines("Answers, p99", "From the request to the first token, and to the last one. Raise live.priority where training makes "
          "it slow.", "s", q(quantile(0.99, "serving_first_token_seconds"), "first token"),
          q(quantile(0.99, "serving_duration_seconds"), "whole answer"), low=0),
    lines("Token by token", "From one token of an answer to the next.", "s",
          q(quantile(0.5, "serving_token_seconds"), "median"), q(quantile(0.99, "serving_token_seconds"), "p99"), low=0),
    lines("Feedback", "Rewards that clients sent, by the answer they got: 200 taken, 404 unknown, 409 contradictory, 410 late.",
          "cps", q(rate("feedback_total", "code"), "{{code}}"), stack=True, low=0),
    lines("Canary", "The newest policy, and the last good one that answers whom it does not; 0: no canary.", "none",
          q(m("policy_version"), "newest"), q(m("good_policy_version"), "good"), low=0),
    row("Process"),
    stat("Up", "Whether the last scrape succeeded.", "none", f"min({m('up')})", thresholds=steps((None, RED), (1, GREEN)),
         mappings=[{"type": "value", "options": {"0": {"text": "down", "color": RED}, "1": {"text": "up", "color": GREEN}}}]),
    stat("Uptime", "Since the process started.", "s", f"time() - max({m('process_start_time_seconds')})"),
    stat("Resident memory", "Of the process.", "bytes", f"sum({m('process_resident_memory_bytes')})"),
    stat("Open files", "Sockets, ledger, libraries; a steady rise is a leak.", "none", f"sum({m('process_open_fds')})",
         thresholds=steps((None, GREEN), (800, YELLOW), (1000, RED))),
    stat("Trained over its life", "Trajectories trained over all runs on this state; restarts do not reset it.", "none",
         f"sum({m('lifetime_trained_trajectories')})"),
    stat("Actor restarts", "Within the shown interval; each one is named in the log.", "none", f"sum(increase({m('actor_restarts_total')}[$__rate_interval]))",
         thresholds=steps((None, GREEN), (1, YELLOW), (4, RED))),
    lines("Memory", "Resident.", "bytes", q(m("process_resident_memory_bytes"), "{{instance}}"), low=0),
    lines("CPU", "Cores in use.", "none", q(f"rate({m('process_cpu_seconds_total')}[$__rate_interval])", "{{instance}}"),
          low=0),
    lines("Restarts by actor", "Actors that died and were replaced.", "cps",
          q(rate("actor_restarts_total", "actor"), "{{actor}}"), low=0),
    panel("table", "Build", "Which build runs where.", "none",
          q(m("build_info"), format="table", instant=True, range=False)),
    row("Ledger and weights"),
    lines("Ledger commits", "Time of a durable commit; a trajectory is accepted when it is over.", "s",
          q(quantile(0.5, "ledger_commit_duration_seconds"), "p50"),
          q(quantile(0.99, "ledger_commit_duration_seconds"), "p99"), low=0,
          thresholds=steps((None, GREEN), (1, RED))),
    lines("Ledger records", "Written a second.", "cps", q(rate("ledger_records_total"), "records"), low=0),
    lines("Weights brought to the generator", "Failed ones leave the old weights in force.", "cps",
          q(rate("weight_publishes_total", "result"), "{{result}}"), low=0),
    lines("Time to bring new weights", "How long it takes, and how long the generator stands still for it; p95.", "s",
          q(quantile(0.95, "weight_publish_duration_seconds"), "duration"),
          q(quantile(0.95, "weight_publish_pause_seconds"), "pause"), low=0),
    lines("Checkpoints", "Written, and those that could not be. A service that is killed goes on from the newest.", "none",
          q(f"sum by (result) (increase({m('checkpoints_total')}[$__rate_interval]))", "{{result}}"), low=0),
    lines("Rollbacks", "Returns to a checkpoint: asked for by somebody, the guard or a canary, or after a learner died.", "none",
          q(f"sum(increase({m('rollbacks_total')}[$__rate_interval]))", "rollbacks"), low=0),
    lines("Time to write a checkpoint", "p95, beside everything else that goes on.", "s",
          q(quantile(0.95, "checkpoint_duration_seconds"), "p95"), low=0),
    row("HTTP"),
    lines("Requests", "By route.", "reqps", q(rate("http_requests_total", "route"), "{{route}}"), low=0),
    lines("Errors", "Share of requests answered with 4xx (the caller's) and 5xx (ours).", "percentunit",
          q(f"(sum(rate({m('http_requests_total', code='~4..')}[$__rate_interval])) or vector(0)) / {rate('http_requests_total')}", "4xx"),
          q(f"(sum(rate({m('http_requests_total', code='~5..')}[$__rate_interval])) or vector(0)) / {rate('http_requests_total')}", "5xx"),
          low=0, thresholds=steps((None, GREEN), (0.05, RED))),
    lines("Time to answer, p95", "By route; chat routes include generation.", "s",
          q(quantile(0.95, "http_request_duration_seconds", "route"), "{{route}}"), low=0),
])

BOARDS = {"overview": OVERVIEW, "learning": LEARNING, "flow": FLOW, "operation": OPERATION}


def text_of(name):
    return json.dumps(BOARDS[name], indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for board_name in BOARDS:
        (HERE / f"{board_name}.json").write_text(text_of(board_name))
