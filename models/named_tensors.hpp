#pragma once
// Between a learner's tensors and the views of an image.
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "config/expected.hpp"
#include "models/learner_image.hpp"
#include "models/optimizer.hpp"

namespace millrace {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};
using NamedTensors = std::vector<NamedTensor>;

// Adds an optimizer's moments and step count under "optimizer.": names[i] is its i-th parameter.
void add_optimizer(NamedTensors& tensors, const AdamW& optimizer, const std::vector<std::string>& names);

// After copy_image into what add_optimizer named: the step count is no handle.
void restore_steps(AdamW& optimizer, const NamedTensors& tensors);

LearnerImagePtr make_image(NamedTensors tensors, ImageGate& gate);

// Writes the image into tensors of the same names, dtypes and shapes: all of them, or none. Names only the image has
// are left alone. Errors: a name is missing, a dtype or shape differs.
expected<void> copy_image(std::span<const TensorView> image, const NamedTensors& tensors);

// The one of that name, copied. Error: missing.
expected<at::Tensor> tensor_of(std::span<const TensorView> image, const std::string& name);

}  // namespace millrace
