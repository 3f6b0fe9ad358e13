#include "models/layers.hpp"

#include "models/projection.hpp"

namespace millrace {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = wide.square().mean(-1, /*keepdim=*/true).add(epsilon).rsqrt();
  return (wide * scale).to(x.scalar_type()) * weight;
}

Rotary rotary_of(const Architecture& architecture, const at::Tensor& positions, at::ScalarType dtype) {
  const std::int64_t half = architecture.head_dim / 2;
  const at::Tensor exponents = at::arange(half, at::kFloat) / static_cast<double>(half);
  const at::Tensor frequencies = at::pow(architecture.rope_theta, exponents).reciprocal();
  const at::Tensor angles = positions.to(at::kFloat).unsqueeze(1) * frequencies;  // [rows, half]
  const at::Tensor both = at::cat({angles, angles}, 1).unsqueeze(1);
  return {both.cos().to(dtype), both.sin().to(dtype)};
}

at::Tensor rotate(const at::Tensor& x, const Rotary& rotary) {
  const auto halves = x.chunk(2, -1);
  return x * rotary.cos + at::cat({-halves[1], halves[0]}, -1) * rotary.sin;
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
  const at::Tensor middle = hidden + project(attended, layer.o);
  const at::Tensor x = rms_norm(middle, layer.mlp_norm, architecture.norm_eps);
  return middle + project(at::silu(project(x, layer.gate)) * project(x, layer.up), layer.down);
}

}  // namespace millrace
