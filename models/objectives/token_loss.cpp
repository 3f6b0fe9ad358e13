#include "models/objectives/token_loss.hpp"

namespace millrace {

at::Tensor ratio_of(const at::Tensor& logp, const at::Tensor& other) {
  constexpr double largest_log = 80;  // e^80 = 5.5e34
  return (logp - other).clamp_max(largest_log).exp();
}

TokenLoss importance_sampled(const at::Tensor& ratio, const at::Tensor& logp, const at::Tensor& advantage,
                             const TrustRegion& region) {
  const at::Tensor low = ratio.le(1 - region.low), high = ratio.ge(1 + region.high);
  const at::Tensor weight = ratio.masked_fill(low.logical_or(high), 0);
  const at::Tensor gradient = -weight * advantage;
  return {.loss = gradient * logp, .gradient = gradient, .weight = weight, .low = low, .high = high};
}

TokenLoss clipped(const at::Tensor& ratio, const at::Tensor& advantage, const TrustRegion& region) {
  const at::Tensor low = ratio.lt(1 - region.low).logical_and(advantage.lt(0));
  const at::Tensor high = ratio.gt(1 + region.high).logical_and(advantage.gt(0));
  const at::Tensor weight = ratio.masked_fill(low.logical_or(high), 0);
  const at::Tensor inside = ratio.clamp(1 - region.low, 1 + region.high);
  return {.loss = -at::minimum(ratio * advantage, inside * advantage),
          .gradient = -weight * advantage,
          .weight = weight,
          .low = low,
          .high = high};
}

}  // namespace millrace
