// GRPO, Group Relative Policy Optimization (arXiv 2402.03300).
//   advantage  the reward normalised in its group of rollouts of one task (group_advantage.hpp)
//   loss       PPO's clip of the ratio to the policy that sampled; idle where nothing was updated in between
//   mean       over each trajectory's tokens, then over trajectories
#include "models/objectives/objective.hpp"

namespace millrace {

TokenLoss grpo(const ActionTokens& tokens, const Recipe& recipe) {
  return clipped(ratio_of(tokens.logp, tokens.behaviour), tokens.advantage, recipe.trust_region);
}

}  // namespace millrace
