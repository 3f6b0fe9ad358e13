// DAPO, Decoupled Clip and Dynamic Sampling Policy Optimization (arXiv 2503.14476).
//   advantage  the reward, less what an answer near the length limit costs, normalised in its group; groups whose
//              members all got the same reward are replaced (runtime/groups.hpp, group_advantage.hpp)
//   loss       clip-higher
//   mean       over the batch's action tokens
#include "models/objectives/objective.hpp"

namespace millrace {

TokenLoss dapo(const ActionTokens& tokens, const Recipe& recipe) {
  return clipped(ratio_of(tokens.logp, tokens.behaviour), tokens.advantage, recipe.trust_region);
}

}  // namespace millrace
