#include "models/objectives/dis.hpp"

namespace millrace {

namespace {

// `where`, not a product: a ratio that overflows is outside the band and must leave a zero, not a NaN.
at::Tensor inside_band(const at::Tensor& ratio, const TrustRegion& region) {
  const at::Tensor inside = ratio.gt(1 - region.low).logical_and(ratio.lt(1 + region.high));
  return at::where(inside, ratio, 0.0);
}

double total(const at::Tensor& tensor) { return tensor.sum().item<double>(); }

}  // namespace

at::Tensor dis_weight(const at::Tensor& logp, const at::Tensor& behaviour, const TrustRegion& region) {
  return inside_band((logp - behaviour).detach().exp(), region);
}

at::Tensor dis_loss(const at::Tensor& logp, const at::Tensor& behaviour, const at::Tensor& advantage,
                    const TrustRegion& region) {
  return -(dis_weight(logp, behaviour, region) * advantage * logp).sum();
}

at::Tensor dis_gradient(const at::Tensor& logp, const at::Tensor& behaviour, const at::Tensor& advantage,
                        const TrustRegion& region) {
  return -dis_weight(logp, behaviour, region) * advantage;
}

PolicySums dis_sums(const at::Tensor& logp, const at::Tensor& behaviour, const at::Tensor& advantage,
                    const at::Tensor& entropy, const TrustRegion& region) {
  const at::Tensor log_ratio = (logp - behaviour).detach().to(at::kDouble);
  const at::Tensor ratio = log_ratio.exp();
  const at::Tensor kept = inside_band(ratio, region);
  return {.tokens = static_cast<double>(logp.numel()),
          .loss = dis_loss(logp, behaviour, advantage, region).item<double>(),
          .masked_low = total(ratio.le(1 - region.low)),
          .masked_high = total(ratio.ge(1 + region.high)),
          .ratio = total(ratio),
          .ratio_squared = total(ratio.square()),
          .kept = total(kept),
          .kept_squared = total(kept.square()),
          .kl = total(ratio - 1 - log_ratio),
          .entropy = total(entropy.detach().to(at::kDouble))};
}

}  // namespace millrace
