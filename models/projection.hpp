#pragma once
// x * weight^T, where all of the time goes. Learners and prompts have hundreds of rows and use at::linear; a decode
// step has one a turn, for which general matrix products reach only half of what the machine can do.
#include <ATen/ATen.h>

namespace millrace {

// x [rows, in], weight [out, in]; returns [rows, out]. In inference mode a row's result is the same to the last bit
// whatever other rows there are, as long as they are few.
at::Tensor project(const at::Tensor& x, const at::Tensor& weight);

}  // namespace millrace
