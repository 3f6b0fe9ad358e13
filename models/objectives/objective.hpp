#pragma once
// Every recipe's policy loss by its name, and how losses of tokens become one number.
#include "models/objectives/token_loss.hpp"
#include "models/policy_learner.hpp"

namespace millrace {

// One page a recipe: the file of the same name.
TokenLoss sao(const ActionTokens& tokens, const Recipe& recipe);
TokenLoss grpo(const ActionTokens& tokens, const Recipe& recipe);
TokenLoss grpo_dis(const ActionTokens& tokens, const Recipe& recipe);
TokenLoss vapo(const ActionTokens& tokens, const Recipe& recipe);
TokenLoss dapo(const ActionTokens& tokens, const Recipe& recipe);
TokenLoss gspo(const ActionTokens& tokens, const Recipe& recipe);
TokenLoss decoupled_ppo(const ActionTokens& tokens, const Recipe& recipe);
TokenLoss running_mean(const ActionTokens& tokens, const Recipe& recipe);

struct Objective {
  std::string_view recipe;
  TokenLoss (*loss)(const ActionTokens& tokens, const Recipe& recipe);
  bool needs_sequence_ratio = false;
  bool needs_proximal = false;
};

const Objective& objective_of(const Recipe& recipe);  // a name without a page is a bug and throws

// The recipe's own loss and, where it has a weight, the KL to the policy at the start of the run, estimated a token by
// q / p - 1 - log(q / p) with q the reference (k3 of Schulman, 2020).
TokenLoss token_loss(const ActionTokens& tokens, const Recipe& recipe);

// What each token counts in the mean, [tokens]: 1 over tokens, 1 / length over sequences. The loss of a batch is
// sum(share * loss) / sum(share), however it was split, packed and ordered.
at::Tensor shares_of(const ActionTokens& tokens, const Recipe& recipe);

// Sums for the step and for the operator. `entropy` is the policy's, in nats.
PolicySums policy_sums(const ActionTokens& tokens, const TokenLoss& loss, const at::Tensor& shares,
                       const at::Tensor& entropy);

}  // namespace millrace
