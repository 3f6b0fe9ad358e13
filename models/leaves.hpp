#pragma once
// Parameters as autograd sees them. Master weights are float32; each has a leaf in the dtype of the arithmetic and one
// float32 gradient, the leaf's grad(), into which every backward pass adds (operations.hpp).
#include <vector>

#include <ATen/ATen.h>

namespace millrace {

class Leaves {
 public:
  // Takes a parameter in and returns its leaf, which shares the parameter's memory where it has the dtype already.
  at::Tensor add(const at::Tensor& parameter, at::ScalarType dtype);

  // Gradients are added up in these tensors from now on, one for each leaf, beginning with zero.
  void add_into(std::vector<at::Tensor> gradients);
  // They belong to others again; nothing may be added before the next add_into.
  void release_gradients();

  // After an update: leaves follow their parameters, given in the order of `add`. They share the memory of those that
  // have the leaf's dtype and copy the others. Gradients stay.
  void follow(const std::vector<at::Tensor>& parameters);

  void drop_gradients();

  const std::vector<at::Tensor>& gradients() const { return gradients_; }
  std::vector<float> flat_gradient() const;  // one after the other

 private:
  std::vector<at::Tensor> leaves_, gradients_;
};

}  // namespace millrace
