#include "models/critic.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "models/actions.hpp"
#include "models/compute.hpp"

namespace millrace {

namespace {

// Frozen attention means q, k, v, o and the embedding; MLPs, all norms and the value head train (SAO, section 3). With
// experts, their projections and the head train alone: norms and router stand still, too, so that every token keeps the
// experts that the policy it started from would have chosen.
bool is_frozen(const std::string& name, const std::string& freeze, bool has_experts) {
  if (freeze == "none") return false;
  if (freeze == "all_but_head") return true;
  if (freeze != "attention") {
    throw std::invalid_argument("value.freeze \"" + freeze + "\": use none, attention or all_but_head");
  }
  if (has_experts) return name.find(".mlp.experts.") == std::string::npos;
  return name.find(".self_attn.") != std::string::npos || name == "model.embed_tokens.weight";
}

}  // namespace

Critic::Critic(const SnapshotPtr& backbone, const ValueSettings& settings)
    : compute_(compute_of(settings.dtype, settings.device)),
      architecture_(backbone->architecture),
      recompute_(settings.recompute_activations),
      max_gradient_norm_(settings.max_gradient_norm),
      weights_(on_device(backbone, compute_.device)->weights) {
  weights_.head = at::Tensor();  // a critic predicts no tokens
  for_each_tensor(weights_, /*tied=*/true, [&](const std::string& name, at::Tensor& tensor) {
    if (is_frozen(name, settings.freeze, architecture_.experts > 0)) {
      tensor = tensor.to(compute_.dtype);  // float32: the backbone's own memory
    } else {
      masters_.push_back(tensor.clone());
      names_.push_back(name);
      tensor = leaves_.add(masters_.back(), compute_.dtype);
    }
  });
  // A zero head: before anything is learned every value is 0 and the advantages are the returns.
  const auto here = at::device(compute_.device).dtype(at::kFloat);
  masters_.push_back(at::zeros({1, architecture_.hidden}, here));
  head_ = leaves_.add(masters_.back(), at::kFloat);
  masters_.push_back(at::zeros({1}, here));
  bias_ = leaves_.add(masters_.back(), at::kFloat);
  names_.insert(names_.end(), {"value_head.weight", "value_head.bias"});
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& master : masters_) gradients.push_back(at::empty_like(master));
  leaves_.add_into(std::move(gradients));
  optimizer_.emplace(
      AdamWSettings{
          .lr = settings.lr, .beta1 = settings.beta1, .beta2 = settings.beta2, .weight_decay = settings.weight_decay},
      masters_);
}

at::Tensor Critic::values_of(std::span<const Sequence> sequences) const {
  const Pack pack = make_pack(sequences, compute_.device);
  const at::Tensor before =
      per_action<std::int64_t>(sequences, compute_.device, [&](auto i, auto t) { return pack.rows[i][t - 1]; });
  std::vector<std::int64_t> last;
  for (const auto& rows : pack.rows) last.push_back(rows.back());
  const at::Tensor rows = at::cat({before, at::tensor(last).to(compute_.device)});
  const at::Tensor hidden = hidden_states(architecture_, weights_, pack, rows, recompute_);
  return at::linear(hidden.to(at::kFloat), head_, bias_).squeeze(1);
}

void Critic::backward(const at::Tensor& values, const at::Tensor& targets) {
  const at::Tensor of_actions = values.slice(0, 0, targets.size(0));
  of_actions.backward((of_actions - targets).detach());
}

bool Critic::update(double norm, double tokens) {
  if (!std::isfinite(norm)) {
    leaves_.drop_gradients();
    return false;
  }
  optimizer_->step(masters_, leaves_.gradients(), clip_factor(norm, max_gradient_norm_) / tokens, masters_);
  leaves_.follow(masters_);
  return true;
}

void Critic::raise(double by) {
  const at::NoGradGuard no_gradient;
  masters_.back().add_(by);  // the bias, whose leaf shares its memory
}

double Critic::bias() const { return masters_.back().item<double>(); }

void Critic::add_to(NamedTensors& tensors) const {
  for (std::size_t i = 0; i < masters_.size(); ++i) tensors.push_back({names_[i], masters_[i]});
  add_optimizer(tensors, *optimizer_, names_);
}

void Critic::restored(const NamedTensors& tensors) {
  restore_steps(*optimizer_, tensors);
  leaves_.drop_gradients();
  leaves_.follow(masters_);
}

}  // namespace millrace
