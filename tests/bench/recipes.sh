#!/usr/bin/env bash
# The evidence about recipes in tests/bench/evidence/recipes/: tests/bench/recipes.sh SECTION..., each a `millrace compare`
# on the tiny model, three seeds. Resumes where it was interrupted; runs stay in build/evidence/, what is kept is the
# table, the figures of all runs, the picture and every run's exact config.
set -euo pipefail
cd "$(dirname "$0")/../.."
export OMP_NUM_THREADS=1
millrace="${MILLRACE_PROGRAM:-build/release/millrace}"
tiny=config/presets/tiny.json

keep() {  # SECTION: copies what is worth keeping
  local from="build/evidence/$1" to="tests/bench/evidence/recipes/$1"
  mkdir -p "$to"
  cp "$from/table.md" "$from/table.csv" "$from/picture.svg" "$to/"
  # One config a kind of run: seeds differ in nothing but the seed.
  for run in "$from"/*-seed0; do cp "$run/config.json" "$to/$(basename "${run%-seed0}").json"; done
}

compare() {  # SECTION ARGUMENTS...
  "$millrace" compare "$tiny" --out "build/evidence/$1" --seeds "${SEEDS:-3}" "${@:2}"
  keep "$1"
}

# Data that are up to 16 versions old: sessions enough that the queue is always full.
lagged=(--set max_lag=16 --set sessions.limit=288)

for section in "$@"; do
  case "$section" in
    recipes) compare recipes --recipes sao,grpo,grpo_dis,vapo,dapo,gspo,decoupled_ppo,running_mean --steps 150 ;;
    stability) compare stability --recipes sao,grpo,grpo_dis,vapo --steps 200 "${lagged[@]}" ;;
    lag)
      compare lag --recipes sao --steps 100 --set sessions.limit=288 --variant "lag 0:max_lag=0" \
        --variant "lag 1:max_lag=1" --variant "lag 2:max_lag=2" --variant "lag 4:max_lag=4" \
        --variant "lag 8:max_lag=8" --variant "lag unbounded:max_lag=1000"
      ;;
    ablations)
      compare ablations --recipes sao --steps 120 --set value.warmup_steps=2 --variant "as it is:value.updates_per_step=2" \
        --variant "K 1:value.updates_per_step=1" --variant "nothing frozen:value.freeze=none" \
        --variant "head only:value.freeze=all_but_head" --variant "no band:trust_region.low=1,trust_region.high=1e9"
      ;;
    pacing)
      # Episodes with a heavy tail, and tools that take none, about half or about nine tenths of an episode's time.
      for tool_seconds in 0 0.04 0.36; do
        compare "pacing-$tool_seconds" --recipes sao --steps 60 --set model.max_context=1024 --set value.warmup_steps=0 \
          --set environment.name=process --set environment.command="python3 tests/bench/heavy_tail.py $tool_seconds" \
          --set environment.max_turns=24 --set environment.max_tokens=1000 --set generation.max_tokens=8 \
          --variant "async:pacing=async" --variant "lockstep:pacing=lockstep" --variant "sync:pacing=sync"
      done
      ;;
    *) echo "recipes.sh: unknown section $section (recipes, stability, lag, ablations, pacing)" >&2; exit 2 ;;
  esac
done
