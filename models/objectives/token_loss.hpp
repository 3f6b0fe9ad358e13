#pragma once
// The parts of which every recipe's policy loss is made: the importance ratio and two ways to bound it. All tensors
// hold one entry an action token, [tokens], in float32 or float64; gradients are in closed form, no graph is recorded.
#include <ATen/ATen.h>

#include "config/recipe.hpp"

namespace millrace {

struct ActionTokens {
  at::Tensor logp;       // under the policy being trained
  at::Tensor behaviour;  // when it was sampled
  at::Tensor advantage;
  at::Tensor length;              // action tokens of the token's trajectory
  at::Tensor rewarded;            // 1 where its trajectory's reward is above 0, else 0
  at::Tensor sequence_log_ratio;  // mean of logp - behaviour over its trajectory; where the objective asks for it
  at::Tensor proximal;            // under the policy at the start of the batch; where the objective asks for it
  at::Tensor reference;           // under the policy at the start of the run; where there is a weight on the KL to it
};

// Before averaging: the loss of each token, minimised.
struct TokenLoss {
  at::Tensor loss;
  at::Tensor gradient;   // of the sum of all losses in logp
  at::Tensor weight;     // what is left of the ratio, 0 outside the trust region: gradient = -weight * advantage
  at::Tensor low, high;  // bool: left out of the gradient for a ratio too low or too high
};

// exp(logp - other), cut off where float32 would overflow.
at::Tensor ratio_of(const at::Tensor& logp, const at::Tensor& other);

// Double-sided importance sampling (SAO, section 3): -f(r) A logp with f(r) = r where 1 - low < r < 1 + high, else 0;
// no gradient flows through f.
TokenLoss importance_sampled(const at::Tensor& ratio, const at::Tensor& logp, const at::Tensor& advantage,
                             const TrustRegion& region);

// PPO's clip (arXiv 1707.06347): -min(r A, clip(r, 1 - low, 1 + high) A).
TokenLoss clipped(const at::Tensor& ratio, const at::Tensor& advantage, const TrustRegion& region);

}  // namespace millrace
