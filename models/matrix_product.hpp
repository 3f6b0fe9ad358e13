#pragma once
// Matrix products whose result is float32 although their factors may be bfloat16, which LibTorch does not offer on
// CPUs. All tensors are contiguous; both factors have one dtype.
#include <ATen/ATen.h>

namespace millrace {

// x [rows, in] times weight [out, in] transposed: [rows, out] float32.
at::Tensor wide_product(const at::Tensor& x, const at::Tensor& weight);

// gradient [out, in] (float32) += dy [rows, out] transposed times x [rows, in]: what a batch says of a weight.
void add_weight_gradient(const at::Tensor& gradient, const at::Tensor& dy, const at::Tensor& x);

}  // namespace millrace
