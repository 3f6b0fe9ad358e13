#pragma once
// A reward against those of the other rollouts of the same task (GRPO, arXiv 2402.03300).
#include <span>

namespace millrace {

// (reward - mean) / (standard deviation + 1e-6), the population's, over the group's finite rewards. 0 where the group
// has no spread; NaN where the reward itself is not finite.
double group_advantage(double reward, std::span<const double> group);

}  // namespace millrace
