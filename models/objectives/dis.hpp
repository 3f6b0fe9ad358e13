#pragma once
// Double-sided importance sampling, the policy loss of SAO (arXiv 2607.07508, section 3). All tensors hold one entry an
// action token, [tokens], in float32 or float64.
#include <ATen/ATen.h>

#include "config/recipe.hpp"
#include "models/policy_learner.hpp"

namespace millrace {

// f(r) = r where 1 - low < r < 1 + high, else 0; r = exp(logp - behaviour). No gradient flows through it.
at::Tensor dis_weight(const at::Tensor& logp, const at::Tensor& behaviour, const TrustRegion& region);

// -sum f(r) A logp: the sum, not the mean. The step divides once, by all of the batch's action tokens.
at::Tensor dis_loss(const at::Tensor& logp, const at::Tensor& behaviour, const at::Tensor& advantage,
                    const TrustRegion& region);

// The derivative of dis_loss in logp, [tokens], for those who go on backwards without a graph.
at::Tensor dis_gradient(const at::Tensor& logp, const at::Tensor& behaviour, const at::Tensor& advantage,
                        const TrustRegion& region);

// What the band did to these tokens, for the operator. `entropy` is the policy's, in nats.
PolicySums dis_sums(const at::Tensor& logp, const at::Tensor& behaviour, const at::Tensor& advantage,
                    const at::Tensor& entropy, const TrustRegion& region);

}  // namespace millrace
