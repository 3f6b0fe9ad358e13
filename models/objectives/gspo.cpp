// GSPO, Group Sequence Policy Optimization (arXiv 2507.18071).
//   advantage  the reward normalised in its group (group_advantage.hpp)
//   loss       PPO's clip of one ratio a sequence: exp of the mean of its tokens' log-ratios
//   mean       over each trajectory's tokens, which all have the same loss, then over trajectories
// Its band is narrow: under lag most sequences are outside (see masked_share).
#include "models/objectives/objective.hpp"

namespace millrace {

TokenLoss gspo(const ActionTokens& tokens, const Recipe& recipe) {
  const at::Tensor ratio = ratio_of(tokens.sequence_log_ratio, at::zeros_like(tokens.sequence_log_ratio));
  // d loss / d logp of one token: 1 / length of every token's loss depends on it, and there are length of them.
  return clipped(ratio, tokens.advantage, recipe.trust_region);
}

}  // namespace millrace
