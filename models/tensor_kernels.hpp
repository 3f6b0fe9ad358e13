#pragma once
// The loops of kernels.hpp as compositions of LibTorch's operations: for any device, at several passes over memory
// each. Numbers between layers have the weights' dtype, sums are float32.
#include <tuple>
#include <utility>

#include <ATen/ATen.h>

namespace millrace::tensor_kernels {

inline at::Tensor widened(const at::Tensor& x) { return x.to(at::kFloat); }

// x * scale * weight, and scale [rows] = 1 / sqrt(mean(x^2) + epsilon).
inline std::pair<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  const at::Tensor scale = (x.square().mean(1) + epsilon).rsqrt();
  return {(x * scale.unsqueeze(1) * widened(weight)).to(weight.scalar_type()), scale};
}

// scale * (w dy - x * scale^2 * mean(w dy x)).
inline at::Tensor rms_norm_backward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale,
                                    const at::Tensor& dy) {
  const at::Tensor weighted = widened(dy) * widened(weight), s = scale.unsqueeze(1);
  return s * (weighted - x * s.square() * (weighted * x).mean(1, /*keepdim=*/true));
}

inline at::Tensor rms_norm_weight_gradient(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& dy) {
  return (widened(dy) * x * scale.unsqueeze(1)).sum(0);
}

inline at::Tensor gated(const at::Tensor& gate, const at::Tensor& up) {
  return (at::silu(widened(gate)) * widened(up)).to(gate.scalar_type());
}

inline std::pair<at::Tensor, at::Tensor> gated_backward(const at::Tensor& gate, const at::Tensor& up,
                                                        const at::Tensor& dy) {
  const at::Tensor g = widened(gate), d = widened(dy), s = g.sigmoid();
  return {(d * widened(up) * s * (1 + g * (1 - s))).to(gate.scalar_type()), (d * g * s).to(gate.scalar_type())};
}

// x [rows, heads, head_dim], cos and sin [rows, head_dim / 2].
inline at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, float sign) {
  const auto halves = widened(x).chunk(2, 2);
  const at::Tensor c = cos.unsqueeze(1), s = sin.unsqueeze(1) * sign;
  return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, 2).to(x.scalar_type());
}

// logits [rows, vocab] become exponentials; their sums, log-probs and entropies, each [rows].
inline std::tuple<at::Tensor, at::Tensor, at::Tensor> exponentials_of_logits(const at::Tensor& logits,
                                                                             const at::Tensor& tokens,
                                                                             const at::Tensor& temperature) {
  const at::Tensor below = (logits - logits.amax(1, /*keepdim=*/true)).div_(temperature.unsqueeze(1));
  logits.copy_(below.exp());
  const at::Tensor sum = logits.sum(1), log_sum = sum.log();
  return {sum, below.gather(1, tokens.unsqueeze(1)).squeeze(1) - log_sum, log_sum - (below * logits).sum(1) / sum};
}

inline at::Tensor add(const at::Tensor& x, const at::Tensor& update) { return x + widened(update); }

}  // namespace millrace::tensor_kernels
