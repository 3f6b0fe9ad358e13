// Decoupled PPO as in AReaL (arXiv 2505.24298): clipped around a recent policy, corrected for the one that sampled.
//   advantage  the reward normalised in its group, or GAE of a value model
//   loss       w min(u A, clip(u) A); u = ratio to the proximal policy, the one at the start of the batch;
//              w = proximal / behaviour
//   mean       over the mini-batch's action tokens
#include "models/objectives/objective.hpp"

namespace millrace {

TokenLoss decoupled_ppo(const ActionTokens& tokens, const Recipe& recipe) {
  TokenLoss result = clipped(ratio_of(tokens.logp, tokens.proximal), tokens.advantage, recipe.trust_region);
  const at::Tensor correction = ratio_of(tokens.proximal, tokens.behaviour);
  result.loss = correction * result.loss;
  result.gradient = correction * result.gradient;
  result.weight = correction * result.weight;
  return result;
}

}  // namespace millrace
