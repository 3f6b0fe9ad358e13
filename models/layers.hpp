#pragma once
// The parts of a transformer layer that learners and the decoder share. All take rows of hidden states, whichever
// sequence they belong to, and compute in the dtype they are given; sums of squares and angles are float32.
#include <cstdint>

#include <ATen/ATen.h>

#include "models/transformer.hpp"

namespace millrace {

// x / sqrt(mean(x^2) + epsilon) * weight, over the last dimension.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// Cosines and sines of rotary position embedding (arXiv 2104.09864), each [rows, 1, head_dim].
struct Rotary {
  at::Tensor cos;
  at::Tensor sin;
};
Rotary rotary_of(const Architecture& architecture, const at::Tensor& positions, at::ScalarType dtype);

// Rotates x [rows, heads, head_dim]. Pairs are (i, i + head_dim / 2), as Hugging Face orders them.
at::Tensor rotate(const at::Tensor& x, const Rotary& rotary);

struct AttentionInput {
  at::Tensor q;  // [rows, heads, head_dim], rotated
  at::Tensor k;  // [rows, kv_heads, head_dim], rotated
  at::Tensor v;  // [rows, kv_heads, head_dim]
};
AttentionInput attention_input(const Architecture& architecture, const Layer& layer, const at::Tensor& hidden,
                               const Rotary& rotary);

// hidden + what the layer's output projection makes of attention's result [rows, heads * head_dim], then the
// feed-forward block: hidden + down(silu(gate) * up).
at::Tensor layer_output(const Architecture& architecture, const Layer& layer, const at::Tensor& hidden,
                        const at::Tensor& attended);

}  // namespace millrace
