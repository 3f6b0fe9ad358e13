// SAO without its critic, the ablation of its section 4.
//   advantage  reward minus the mean of the last 128 rewards before it, over a running RMS (running_mean.hpp)
//   loss       double-sided importance sampling
//   mean       over the batch's action tokens
#include "models/objectives/running_mean.hpp"

#include <numeric>

#include "models/objectives/objective.hpp"

namespace millrace {

TokenLoss running_mean(const ActionTokens& tokens, const Recipe& recipe) {
  const at::Tensor ratio = ratio_of(tokens.logp, tokens.behaviour);
  return importance_sampled(ratio, tokens.logp, tokens.advantage, recipe.trust_region);
}

double RunningMean::advantage(double reward) {
  const double sum = std::accumulate(rewards_.begin(), rewards_.end(), 0.0);
  const double mean = rewards_.empty() ? 0.0 : sum / static_cast<double>(rewards_.size());
  rewards_.push_back(reward);
  if (rewards_.size() > window_) rewards_.pop_front();
  return reward - mean;
}

}  // namespace millrace
