#pragma once
// The parts of a transformer layer that learners and the decoder share. All take rows of hidden states (float32),
// whichever sequence they belong to; between them numbers have the weights' dtype.
#include <cstdint>

#include <ATen/ATen.h>

#include "models/operations.hpp"
#include "models/transformer.hpp"

namespace millrace {

Rotary rotary_of(const Architecture& architecture, const at::Tensor& positions);

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
