#pragma once
// A recipe is an algorithm as plain data: how trajectories are grouped, what they are compared with (baseline), how far
// the policy may have moved (trust region), and what the critic does. SAO (arXiv 2607.07508) is the one that stands here.
#include <array>
#include <string_view>

namespace millrace {

// Double-sided importance sampling (SAO, section 3): a token whose ratio r = exp(log-prob - behaviour log-prob) lies
// strictly between 1 - low and 1 + high keeps r as its weight; all others leave the gradient.
struct TrustRegion {
  double low = 0.3;
  double high = 5.0;
};

// GAE over action tokens only. lambda_policy = 1 - 1 / (alpha * action tokens of the trajectory), clamped to [0, 1].
struct Baseline {
  double gamma = 1.0;
  double lambda_policy_alpha = 1.5;
  double lambda_value = 1.0;
};

struct Recipe {
  std::string_view name = "sao";
  int group_size = 1;  // rollouts a task
  Baseline baseline;
  TrustRegion trust_region;
};

inline constexpr std::array recipes{Recipe{}};

}  // namespace millrace
