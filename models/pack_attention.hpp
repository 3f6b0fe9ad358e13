#pragma once
// Attention within a pack on the CPU: every row sees the common prefix and, of its own sequence, what stands before it.
// Made of products over those parts alone: no mask, nothing is computed between sequences.
#include "models/layers.hpp"

namespace millrace {

// Returns [rows, heads * head_dim] of the inputs' dtype. Differentiable; scores and sums are float32.
at::Tensor pack_attention(const AttentionInput& in, const Pack& pack);

}  // namespace millrace
