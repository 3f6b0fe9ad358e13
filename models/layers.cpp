#include "models/layers.hpp"

#include <cmath>

#include "models/experts.hpp"

namespace millrace {

namespace {

// Formula: Hugging Face transformers, rope type "llama3" (wavelengths against the context the model was trained with).
at::Tensor scaled(const at::Tensor& frequencies, const RopeScaling& scaling) {
  const at::Tensor turns = frequencies * (scaling.original_context / (2 * M_PI));  // within the original context
  const double low = scaling.low_frequency_factor, high = scaling.high_frequency_factor;
  const at::Tensor kept = ((turns - low) / (high - low)).clamp(0, 1);
  return frequencies * (kept + (1 - kept) / scaling.factor);
}

}  // namespace

Rotary rotary_of(const Architecture& architecture, const at::Tensor& positions) {
  const std::int64_t half = architecture.head_dim / 2;
  const at::Tensor exponents = at::arange(half, positions.options().dtype(at::kFloat)) / static_cast<double>(half);
  at::Tensor frequencies = at::pow(architecture.rope_theta, exponents).reciprocal();
  if (architecture.rope_scaling.factor != 1.0) frequencies = scaled(frequencies, architecture.rope_scaling);
  const at::Tensor angles = positions.to(at::kFloat).unsqueeze(1) * frequencies;  // [rows, half]
  return {angles.cos(), angles.sin()};
}

AttentionInput attention_input(const Architecture& architecture, const Layer& layer, const at::Tensor& hidden,
                               const Rotary& rotary) {
  const at::Tensor x = rms_norm(hidden, layer.attention_norm, architecture.norm_eps);
  const auto heads_of = [&](const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& norm) {
    at::Tensor heads = project(x, weight);
    if (bias.defined()) heads = add_bias(heads, bias);
    if (norm.defined()) {
      heads = rms_norm(heads.view({-1, architecture.head_dim}).to(at::kFloat), norm, architecture.norm_eps);
    }
    return heads.view({x.size(0), -1, architecture.head_dim});
  };
  return {rotate(heads_of(layer.q, layer.q_bias, layer.q_norm), rotary),
          rotate(heads_of(layer.k, layer.k_bias, layer.k_norm), rotary), heads_of(layer.v, layer.v_bias, {})};
}

at::Tensor layer_output(const Architecture& architecture, const Layer& layer, const at::Tensor& hidden,
                        const at::Tensor& attended) {
  const at::Tensor middle = residual(hidden, project(attended, layer.o));
  const at::Tensor x = rms_norm(middle, layer.mlp_norm, architecture.norm_eps);
  if (layer.router.defined()) return residual(middle, mixture_of_experts(architecture, layer, x));
  return residual(middle, project(gated(project(x, layer.gate), project(x, layer.up)), layer.down));
}

}  // namespace millrace
