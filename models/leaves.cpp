#include "models/leaves.hpp"

#include <utility>

#include <ATen/core/grad_mode.h>

namespace millrace {

at::Tensor Leaves::add(const at::Tensor& parameter, at::ScalarType dtype) {
  at::Tensor leaf = parameter.detach().to(dtype).requires_grad_(true);
  leaves_.push_back(leaf);
  return leaf;
}

void Leaves::add_into(std::vector<at::Tensor> gradients) {
  gradients_ = std::move(gradients);
  drop_gradients();
  for (std::size_t i = 0; i < leaves_.size(); ++i) leaves_[i].mutable_grad() = gradients_.at(i);
}

void Leaves::release_gradients() {
  for (const at::Tensor& leaf : leaves_) leaf.mutable_grad().reset();
  gradients_.clear();
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
