#pragma once
// x * weight^T without gradients, where decoding spends its time. Prompts have hundreds of rows and use at::linear; a
// decode step has one a turn, for which general matrix products reach only half of what the machine can do, unless it
// multiplies bfloat16 in tiles (AMX).
#include <ATen/ATen.h>

namespace millrace {

// x [rows, in], weight [out, in] of one dtype; returns [rows, out] of that dtype. A row's result is the same to the
// last bit whatever other rows there are, as long as they are few. A weight may also be quantised, x is float32 then.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight);

// The same in float32, also of bfloat16 factors: for logits, whose rounding would be seen in log-probs.
at::Tensor float_product(const at::Tensor& x, const at::Tensor& weight);

}  // namespace millrace
