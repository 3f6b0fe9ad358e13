// GRPO under SAO's trust region, the strongest comparison of the SAO paper.
//   advantage  the reward normalised in its group (group_advantage.hpp)
//   loss       double-sided importance sampling
//   mean       over the batch's action tokens
#include "models/objectives/objective.hpp"

namespace millrace {

TokenLoss grpo_dis(const ActionTokens& tokens, const Recipe& recipe) {
  const at::Tensor ratio = ratio_of(tokens.logp, tokens.behaviour);
  return importance_sampled(ratio, tokens.logp, tokens.advantage, recipe.trust_region);
}

}  // namespace millrace
