#pragma once
// A recipe is an algorithm as plain data: how trajectories are grouped, what they are compared with (baseline), how far
// the policy may have moved (trust region), how its loss is averaged and when generation waits (pacing). Each has a
// page of the same name in models/objectives/. A config names a recipe and may overrule any of its numbers.
#include <array>
#include <string>
#include <string_view>

namespace millrace {

struct Grouping {
  int size = 1;             // rollouts a task
  bool drop_equal = false;  // a group whose members all got the same reward is dropped and replaced
  double max_wait_s = 600;  // seconds from a group's permits until it closes with the members it has
  // Share of the length limit over which a penalty grows from 0 to 1 up to the limit (DAPO's soft punishment); 0 =
  // none.
  double overlong_share = 0;
};

// What a trajectory is compared with.
//   value         a value model: GAE over action tokens only, lambda_policy = 1 - 1 / (alpha * action tokens of the
//                 trajectory) clamped to [0, 1], in units of a running RMS
//   group         its group: (reward - mean) / (standard deviation + 1e-6), the population's
//   running_mean  the mean of the last `window` rewards before it, in units of a running RMS
struct Baseline {
  std::string kind = "value";
  double gamma = 1.0;
  double lambda_policy_alpha = 1.5;
  double lambda_value = 1.0;
  bool skip_observations = true;  // false: plain GAE, in which observation tokens are transitions like any other
  int window = 128;
};

// The policy's ratio to whatever sampled a token may lie between 1 - low and 1 + high.
struct TrustRegion {
  double low = 0.3;
  double high = 5.0;
};

struct Loss {
  std::string mean_over = "tokens";  // tokens of the batch | sequence: tokens of each trajectory, then trajectories
  int mini_batches = 1;              // optimizer steps a policy step, each on its own part of the batch
  double nll_weight = 0;             // of the negative log-likelihood of rewarded trajectories (VAPO)
  double kl_weight = 0;              // of the KL to the policy at the start
  double entropy_weight = 0;         // of the entropy bonus
};

// What the critic does; the defaults of the keys value.*.
struct CriticPlan {
  int updates_per_step = 2;          // K
  std::string freeze = "attention";  // none | attention | all_but_head
  int warmup_steps = 10;             // first batches that train the critic only
};

struct Recipe {
  std::string name = "sao";
  Grouping grouping = {};
  Baseline baseline = {};
  TrustRegion trust_region = {};
  Loss loss = {};
  CriticPlan critic = {};
  std::string pacing = "async";
};

inline constexpr int usual_group = 4;  // rollouts a task where a recipe has groups: a small batch holds several

inline const std::array<Recipe, 8> recipes{{
    // SAO, arXiv 2607.07508: single rollouts, double-sided importance sampling (coding: 0.8 / 3.0), a strong critic.
    {.name = "sao"},
    // GRPO, arXiv 2402.03300: the group is the baseline; PPO's clip.
    {.name = "grpo",
     .grouping = {.size = usual_group},
     .baseline = {.kind = "group"},
     .trust_region = {.low = 0.2, .high = 0.2},
     .loss = {.mean_over = "sequence"}},
    // GRPO's baseline under SAO's trust region.
    {.name = "grpo_dis", .grouping = {.size = usual_group}, .baseline = {.kind = "group"}},
    // VAPO, arXiv 2504.05118: a critic with a short horizon, clip-higher, likelihood of what was rewarded.
    {.name = "vapo",
     .grouping = {.size = usual_group},
     .baseline = {.lambda_policy_alpha = 0.05},
     .trust_region = {.low = 0.2, .high = 0.28},
     .loss = {.nll_weight = 0.1},
     .critic = {.updates_per_step = 1, .freeze = "none", .warmup_steps = 50}},
    // DAPO, arXiv 2503.14476: clip-higher, groups without contrast replaced, answers near the limit punished.
    {.name = "dapo",
     .grouping = {.size = usual_group, .drop_equal = true, .overlong_share = 0.2},
     .baseline = {.kind = "group"},
     .trust_region = {.low = 0.2, .high = 0.28}},
    // GSPO, arXiv 2507.18071: one ratio a sequence, the geometric mean of its tokens'.
    {.name = "gspo",
     .grouping = {.size = usual_group},
     .baseline = {.kind = "group"},
     .trust_region = {.low = 3e-4, .high = 4e-4},
     .loss = {.mean_over = "sequence"}},
    // Decoupled PPO of AReaL, arXiv 2505.24298: clipped around the policy at the start of the batch. With single
    // rollouts (grouping.size 1) its baseline is a value model.
    {.name = "decoupled_ppo",
     .grouping = {.size = usual_group},
     .baseline = {.kind = "group"},
     .trust_region = {.low = 0.2, .high = 0.2},
     .loss = {.mini_batches = 4}},
    // SAO without its critic: the mean of the last rewards.
    {.name = "running_mean", .baseline = {.kind = "running_mean"}},
}};

}  // namespace millrace
