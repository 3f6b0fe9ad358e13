#include "models/layers.hpp"

namespace millrace {

Rotary rotary_of(const Architecture& architecture, const at::Tensor& positions) {
  const std::int64_t half = architecture.head_dim / 2;
  const at::Tensor exponents = at::arange(half, at::kFloat) / static_cast<double>(half);
  const at::Tensor frequencies = at::pow(architecture.rope_theta, exponents).reciprocal();
  const at::Tensor angles = positions.to(at::kFloat).unsqueeze(1) * frequencies;  // [rows, half]
  return {angles.cos(), angles.sin()};
}

AttentionInput attention_input(const Architecture& architecture, const Layer& layer, const at::Tensor& hidden,
                               const Rotary& rotary) {
  const at::Tensor x = rms_norm(hidden, layer.attention_norm, architecture.norm_eps);
  const auto heads_of = [&](const at::Tensor& weight) {
    return project(x, weight).view({x.size(0), -1, architecture.head_dim});
  };
  return {rotate(heads_of(layer.q), rotary), rotate(heads_of(layer.k), rotary), heads_of(layer.v)};
}

at::Tensor layer_output(const Architecture& architecture, const Layer& layer, const at::Tensor& hidden,
                        const at::Tensor& attended) {
  const at::Tensor middle = residual(hidden, project(attended, layer.o));
  const at::Tensor x = rms_norm(middle, layer.mlp_norm, architecture.norm_eps);
  return residual(middle, project(gated(project(x, layer.gate), project(x, layer.up)), layer.down));
}

}  // namespace millrace
