#pragma once
// Weights in eight bits: a quarter of the memory that a decode step reads, and products of integers. A matrix
// [out, in] becomes one kChar tensor [out, in + 4], whose bytes lie as the product reads them: blocks of 16 outputs,
// each first their 16 scales (float32), then for every two inputs the 16 outputs' two numbers, from -127 to 127.
#include <ATen/ATen.h>

namespace millrace {

// weight [..., out, in] (float32) with every row of its own scale, max|row| / 127: [..., out, in + 4] kChar. Matrices
// that are not divided by 16 outputs and 2 inputs stay as they are.
at::Tensor quantised(const at::Tensor& weight);

inline bool is_quantised(const at::Tensor& weight) { return weight.scalar_type() == at::kChar; }

// x [rows, in] (float32) times a quantised weight [out, in] transposed: [rows, out] float32. Every row of x is rounded
// to integers, as fine as sums in 32 bits allow: 2^31 / (127 in) steps to each side, at most 2^15. The result is within
//   sum |x| * scale_w / 2 + sum |w| * scale_x / 2
// of the float product. A row's result is the same to the last bit whatever other rows there are, on every machine; a
// row that is not finite gives NaN.
at::Tensor quantised_product(const at::Tensor& x, const at::Tensor& weight);

}  // namespace millrace
