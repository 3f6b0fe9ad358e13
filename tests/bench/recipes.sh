#!/usr/bin/env bash
# The evidence about recipes in tests/bench/evidence/recipes/: tests/bench/recipes.sh SECTION... of recipes, stability, lag,
# ablations, trust, dense, observations, pretrained, guard and pacing, each a `millrace compare` on the tiny model, three seeds.
# Resumes where it was interrupted; runs stay in build/evidence/, what is kept is the table, the figures of all runs, the
# picture and every run's exact config.
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
  "$millrace" compare "$tiny" --out "build/evidence/$1" --seeds "${SEEDS:-3}" --patience 30 "${@:2}" || [[ $? == 1 ]]  # 1: a run failed, the others count
  keep "$1"
}

# Data that are up to 16 versions old: sessions enough that the queue is always full.
lagged=(--set max_lag=16 --set sessions.limit=288)

# Every recipe with the same three learning rates: none is tuned for one of them alone.
rates=(--variant "lr 1e-3:policy.lr=1e-3" --variant "lr 3e-3:policy.lr=3e-3" --variant "lr 1e-2:policy.lr=1e-2")

for section in "$@"; do
  case "$section" in
    recipes) compare recipes --recipes sao,grpo,grpo_dis,vapo,dapo,gspo,decoupled_ppo,running_mean --steps 150 "${rates[@]}" ;;
    stability)
      # The two higher rates: at the lowest nothing is in danger.
      compare stability --recipes sao,grpo,grpo_dis,vapo --steps 1000 "${lagged[@]}" "${rates[@]:2}"
      ;;
    lag)
      compare lag --recipes sao --steps 100 --set sessions.limit=288 --variant "lag 0:max_lag=0" \
        --variant "lag 1:max_lag=1" --variant "lag 2:max_lag=2" --variant "lag 4:max_lag=4" \
        --variant "lag 8:max_lag=8" --variant "lag unbounded:max_lag=1000" \
        --variant "just in time:max_lag=8,pacing=just_in_time"
      ;;
    ablations)
      compare ablations --recipes sao --steps 120 --set value.warmup_steps=2 --variant "as it is:value.updates_per_step=2" \
        --variant "K 1:value.updates_per_step=1" --variant "nothing frozen:value.freeze=none" \
        --variant "head only:value.freeze=all_but_head" --variant "running mean:recipe=running_mean"
      ;;
    trust)
      # The same critic and advantages: within the band, with PPO's clip, without either.
      compare trust --recipes sao --steps 200 "${lagged[@]}" --variant "band:trust_region.low=0.3" \
        --variant "clip:recipe=vapo,grouping.size=1,loss.nll_weight=0,baseline.lambda_policy_alpha=1.5,value.updates_per_step=2,value.freeze=attention" \
        --variant "neither:trust_region.low=1,trust_region.high=1e9"
      ;;
    dense)
      for paid in at_once at_the_end; do
        compare "dense-$paid" --recipes sao,running_mean,grpo_dis --steps 100 --set environment.name=process \
          --set environment.command="python3 tests/bench/dense.py $paid 1" --set reward.spec=environment \
          --set environment.max_turns=4 --set environment.max_tokens=500 --set generation.max_tokens=8 --set model.max_context=512
      done
      ;;
    observations)
      compare observations --recipes sao --steps 100 --set environment.name=process --set model.max_context=512 \
        --set environment.command="python3 tests/bench/dense.py at_the_end 24" --set reward.spec=environment \
        --set environment.max_turns=4 --set environment.max_tokens=500 --set generation.max_tokens=8 \
        --variant "skipped:baseline.skip_observations=true" --variant "plain GAE:baseline.skip_observations=false"
      ;;
    pretrained)
      # A critic that learned from another run's ledger, against one that has to start with the policy.
      rm -rf build/evidence/pretraining
      "$millrace" serve "$tiny" --steps 60 --set seed=100 --set http.port=0 --set state.directory=build/evidence/pretraining/state
      "$millrace" pretrain-value "$tiny" --data build/evidence/pretraining/state --out build/evidence/pretraining/value
      compare pretrained --recipes sao --steps 80 --variant "cold:value.warmup_steps=0" \
        --variant "warm-up:value.warmup_steps=5" \
        --variant "pretrained:value.warmup_steps=0,value.path=build/evidence/pretraining/value"
      ;;
    pacing)
      # Episodes with a heavy tail, and tools that take none, about half or about nine tenths of an episode's time.
      # Fewer steps where they take longer; nothing else may run on the machine.
      for run in "0 60" "0.04 40" "0.36 20"; do
        read -r tool_seconds steps <<<"$run"
        compare "pacing-$tool_seconds" --recipes sao --steps "$steps" --set model.max_context=1024 --set value.warmup_steps=0 \
          --set environment.name=process --set environment.command="python3 tests/bench/heavy_tail.py $tool_seconds" \
          --set environment.max_turns=24 --set environment.max_tokens=1000 --set generation.max_tokens=8 \
          --variant "async:pacing=async" --variant "just in time:pacing=just_in_time" --variant "sync:pacing=sync"
      done
      ;;
    guard)
      # Steps so long that what has been learned is lost again, and what the guard makes of it.
      compare guard --recipes sao --steps 250 --set policy.lr=0.05 --set loss.kl_weight=0.05 --set guard.max_reward_loss=0.3 \
        --set guard.max_masked_share=1 --set guard.min_effective_sample_size=0 --set checkpoint.every_steps=5 \
        --set checkpoint.keep=3 --variant "off:guard.action=off" --variant "rollback:guard.action=rollback" \
        --variant "rollback alone:guard.action=rollback,guard.slow_down=1"
      ;;
    *) echo "recipes.sh: unknown section $section" >&2; exit 2 ;;
  esac
done
