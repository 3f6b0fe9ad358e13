// VAPO, Value-based Augmented PPO (arXiv 2504.05118).
//   advantage  GAE of a value model with lambda = 1 - 1 / (0.05 length), value targets with lambda 1 (gae.hpp)
//   loss       clip-higher, and 0.1 times the negative log-likelihood of rewarded trajectories
//   mean       over the batch's action tokens, for both parts
#include "models/objectives/objective.hpp"

namespace millrace {

TokenLoss vapo(const ActionTokens& tokens, const Recipe& recipe) {
  TokenLoss result = clipped(ratio_of(tokens.logp, tokens.behaviour), tokens.advantage, recipe.trust_region);
  const at::Tensor likelihood = recipe.loss.nll_weight * tokens.rewarded;
  result.loss = result.loss - likelihood * tokens.logp;
  result.gradient = result.gradient - likelihood;
  return result;
}

}  // namespace millrace
