#include "models/leaves.hpp"

#include <stdexcept>

#include <ATen/core/grad_mode.h>
#include <ATen/cpu/Utils.h>

namespace millrace {

at::ScalarType compute_dtype(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  if (name != "auto") throw std::invalid_argument("dtype \"" + name + "\": use auto, float32 or bfloat16");
  const auto capabilities = at::cpu::get_cpu_capabilities();
  for (const char* feature : {"avx512_bf16", "amx_bf16"}) {
    const auto found = capabilities.find(feature);
    if (found != capabilities.end() && found->second.toBool()) return at::kBFloat16;
  }
  return at::kFloat;
}

at::Tensor Leaves::add(const at::Tensor& master, at::ScalarType dtype) {
  at::Tensor leaf = master.detach().to(dtype).requires_grad_(true);
  at::Tensor gradient = at::zeros(master.sizes(), at::kFloat);
  if (dtype == at::kFloat) leaf.mutable_grad() = gradient;  // autograd adds to a gradient that is there in place
  gradients_.push_back(std::move(gradient));
  leaves_.push_back(leaf);
  return leaf;
}

void Leaves::collect() {
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    at::Tensor& left = leaves_[i].mutable_grad();
    if (leaves_[i].scalar_type() == at::kFloat || !left.defined()) continue;
    gradients_[i].add_(left);
    left.reset();
  }
}

void Leaves::follow(const std::vector<at::Tensor>& masters) {
  const at::NoGradGuard no_gradient;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (leaves_[i].scalar_type() == at::kFloat) {
      leaves_[i].set_data(masters[i]);
    } else {
      leaves_[i].copy_(masters[i]);
    }
  }
}

void Leaves::drop_gradients() {
  for (const at::Tensor& gradient : gradients_) gradient.zero_();
}

std::vector<float> Leaves::flat_gradient() const {
  std::vector<float> flat;
  for (const at::Tensor& gradient : gradients_) {
    const auto* numbers = gradient.const_data_ptr<float>();
    flat.insert(flat.end(), numbers, numbers + gradient.numel());
  }
  return flat;
}

}  // namespace millrace
