#!/usr/bin/env bash
# The evidence of the quick start: SEEDS runs of 40 steps each, the first of which goes on for SHIFTED steps after a live
# `millrace shift cute`. Writes OUT/seedN.jsonl, scores every ledger again by rescore.py, and draws OUT/quickstart.svg.
set -euo pipefail
cd "$(dirname "$0")/../.."

out="${1:-build/evidence/quickstart}" seeds="${SEEDS:-0 1 2}" shifted="${SHIFTED:-60}" program="${PROGRAM:-build/release/millrace}"
mkdir -p "$out"
steps=$((40 + shifted))
runs=()
for seed in $seeds; do
  echo "quickstart: seed $seed, $steps steps" >&2
  port=$((8900 + seed))
  "$program" serve config/presets/quickstart.json --fresh --json --steps "$steps" --set seed="$seed" \
    --set http.port="$port" --set state.directory="$out/state$seed" >"$out/seed$seed.jsonl" 2>"$out/seed$seed.log" &
  server=$!
  if ((shifted)); then
    until (($(wc -l <"$out/seed$seed.jsonl") >= 40)); do sleep 1; kill -0 "$server"; done
    "$program" shift cute --address "127.0.0.1:$port" >&2
  fi
  wait "$server"
  python3 tests/bench/rescore.py "$out/state$seed" >"$out/seed$seed.rescored"
  tail -n1 "$out/seed$seed.rescored" >&2
  runs+=("seed $seed=$out/seed$seed.jsonl")
  steps=40 shifted=0
done
python3 tests/bench/plot_runs.py "$out/quickstart.svg" --mark "40:shift to cute" "${runs[@]}"
