// SAO, Single-rollout Asynchronous Optimization (arXiv 2607.07508).
//   advantage  skip-observation GAE of a value model with lambda = 1 - 1 / (1.5 length), over a running RMS (gae.hpp)
//   loss       double-sided importance sampling against the rollout's own log-probs: no old policy is kept
//   mean       over the batch's action tokens, those outside the band included
#include "models/objectives/objective.hpp"

namespace millrace {

TokenLoss sao(const ActionTokens& tokens, const Recipe& recipe) {
  const at::Tensor ratio = ratio_of(tokens.logp, tokens.behaviour);
  return importance_sampled(ratio, tokens.logp, tokens.advantage, recipe.trust_region);
}

}  // namespace millrace
