#include "models/leaves.hpp"

#include <ATen/core/grad_mode.h>

namespace millrace {

at::Tensor Leaves::add(const at::Tensor& parameter, at::ScalarType dtype) {
  at::Tensor leaf = parameter.detach().to(dtype).requires_grad_(true);
  gradients_.push_back(at::zeros(parameter.sizes(), parameter.options().dtype(at::kFloat).requires_grad(false)));
  leaf.mutable_grad() = gradients_.back();
  leaves_.push_back(leaf);
  return leaf;
}

void Leaves::follow(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_gradient;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (leaves_[i].scalar_type() == parameters[i].scalar_type()) {
      leaves_[i].set_data(parameters[i]);
    } else {
      leaves_[i].copy_(parameters[i]);
    }
  }
}

void Leaves::drop_gradients() {
  for (const at::Tensor& gradient : gradients_) gradient.zero_();
}

std::vector<float> Leaves::flat_gradient() const {
  std::vector<float> flat;
  for (const at::Tensor& there : gradients_) {
    const at::Tensor gradient = there.cpu();
    const auto* numbers = gradient.const_data_ptr<float>();
    flat.insert(flat.end(), numbers, numbers + gradient.numel());
  }
  return flat;
}

}  // namespace millrace
