#pragma once
// The differentiable operations of a transformer. The hidden states that layers add to are float32; what goes through
// the layers has the weights' dtype, float32 or bfloat16. Gradients of weights do not go through autograd: a backward
// pass adds them in float32 to the weight's own grad(), so that nothing is rounded or copied between two passes.
#include <functional>

#include <ATen/ATen.h>

namespace millrace {

// Rows of the table [vocab, size] for tokens [rows], as float32 [rows, size].
at::Tensor embed(const at::Tensor& table, const at::Tensor& tokens);

// x [rows, in] times weight [out, in] transposed: [rows, out].
at::Tensor project(const at::Tensor& x, const at::Tensor& weight);

// The same with one of several weights, weights[part]: weights [parts, out, in].
at::Tensor project_part(const at::Tensor& x, const at::Tensor& weights, std::int64_t part);

// x [rows, out] plus bias [out], both of one dtype.
at::Tensor add_bias(const at::Tensor& x, const at::Tensor& bias);

// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension; x [rows, size] is float32, the result of the weight's
// dtype.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// Cosines and sines of rotary position embedding (arXiv 2104.09864), each [rows, head_dim / 2] float32.
struct Rotary {
  at::Tensor cos;
  at::Tensor sin;
};

// Rotates x [rows, heads, head_dim]. Pairs are (i, i + head_dim / 2), as Hugging Face orders them.
at::Tensor rotate(const at::Tensor& x, const Rotary& rotary);

// silu(gate) * up, elementwise (SwiGLU, arXiv 2002.05202).
at::Tensor gated(const at::Tensor& gate, const at::Tensor& up);

// hidden + update: float32, whatever the update's dtype.
at::Tensor residual(const at::Tensor& hidden, const at::Tensor& update);

// What a layer makes of hidden states, of which only those are kept for the backward pass: it runs the layer once more
// (activation checkpointing, arXiv 1604.06174). `trained`: a weight of the layer that requires a gradient, if one does.
at::Tensor recomputed(const at::Tensor& hidden, const at::Tensor& trained,
                      std::function<at::Tensor(const at::Tensor& hidden)> layer);

}  // namespace millrace
