#pragma once
// Parameters as autograd sees them. Master weights are float32; each has a leaf in the dtype of the arithmetic and one
// float32 gradient that lasts, into which every backward pass adds.
#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace millrace {

// "auto" is bfloat16 where the CPU multiplies it in hardware, else float32. Another name is a bug and throws.
at::ScalarType compute_dtype(const std::string& name);

class Leaves {
 public:
  // Takes a parameter in and returns its leaf. In float32 the leaf shares the master's memory.
  at::Tensor add(const at::Tensor& master, at::ScalarType dtype);

  // After a backward pass: moves what bfloat16 leaves got into the float32 gradients.
  void collect();

  // After an update: leaves follow their new masters, given in the order of `add`. Gradients stay.
  void follow(const std::vector<at::Tensor>& masters);

  void drop_gradients();

  const std::vector<at::Tensor>& gradients() const { return gradients_; }
  std::vector<float> flat_gradient() const;  // one after the other

 private:
  std::vector<at::Tensor> leaves_, gradients_;
};

}  // namespace millrace
