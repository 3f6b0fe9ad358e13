#include "models/objectives/objective.hpp"

#include <stdexcept>

namespace millrace {

namespace {

constexpr Objective objectives[] = {
    {"sao", sao},
    {"grpo", grpo},
    {"grpo_dis", grpo_dis},
    {"vapo", vapo},
    {"dapo", dapo},
    {"gspo", gspo, /*needs_sequence_ratio=*/true},
    {"decoupled_ppo", decoupled_ppo, /*needs_sequence_ratio=*/false, /*needs_proximal=*/true},
    {"running_mean", running_mean},
};

double total(const at::Tensor& tensor) { return tensor.sum().item<double>(); }

}  // namespace

const Objective& objective_of(const Recipe& recipe) {
  for (const Objective& objective : objectives) {
    if (objective.recipe == recipe.name) return objective;
  }
  throw std::invalid_argument("recipe \"" + recipe.name + "\" has no page in models/objectives/");
}

TokenLoss token_loss(const ActionTokens& tokens, const Recipe& recipe) {
  TokenLoss result = objective_of(recipe).loss(tokens, recipe);
  if (recipe.loss.kl_weight > 0) {
    const at::Tensor log_ratio = tokens.reference - tokens.logp;
    const at::Tensor ratio = ratio_of(tokens.reference, tokens.logp);
    result.loss = result.loss + recipe.loss.kl_weight * (ratio - 1 - log_ratio);
    result.gradient = result.gradient + recipe.loss.kl_weight * (1 - ratio);
  }
  return result;
}

at::Tensor shares_of(const ActionTokens& tokens, const Recipe& recipe) {
  if (recipe.loss.mean_over == "tokens") return at::ones_like(tokens.logp);
  if (recipe.loss.mean_over == "sequence") return tokens.length.reciprocal();
  throw std::invalid_argument("loss.mean_over \"" + recipe.loss.mean_over + "\": use tokens or sequence");
}

PolicySums policy_sums(const ActionTokens& tokens, const TokenLoss& loss, const at::Tensor& shares,
                       const at::Tensor& entropy) {
  const at::Tensor log_ratio = (tokens.logp - tokens.behaviour).to(at::kDouble).contiguous();
  const at::Tensor ratio = log_ratio.exp();
  const at::Tensor kept = loss.weight.to(at::kDouble);
  PolicySums sums{.tokens = static_cast<double>(log_ratio.numel()),
                  .shares = total(shares.to(at::kDouble)),
                  .loss = total((shares * loss.loss).to(at::kDouble)),
                  .masked_low = total(loss.low),
                  .masked_high = total(loss.high),
                  .ratio = total(ratio),
                  .ratio_squared = total(ratio.square()),
                  .kept = total(kept),
                  .kept_squared = total(kept.square()),
                  .kl = total(ratio - 1 - log_ratio),
                  .entropy = total(entropy.to(at::kDouble)),
                  .ratios = {}};
  const at::Tensor log_ratio_here = log_ratio.cpu();
  const auto* numbers = log_ratio_here.const_data_ptr<double>();
  for (std::int64_t i = 0; i < log_ratio.numel(); ++i) sums.ratios.add(numbers[i]);
  return sums;
}

}  // namespace millrace
