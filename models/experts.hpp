#pragma once
// The feed-forward block of a mixture of experts (Qwen3-MoE): every token goes through the few experts that a router
// chooses for it.
#include <ATen/ATen.h>

#include "models/transformer.hpp"

namespace millrace {

struct Routing {
  at::Tensor experts;  // [rows, experts_per_token] int64, the most probable first
  at::Tensor weights;  // [rows, experts_per_token], in the dtype of the rows; differentiable
};

// softmax(x * router^T) in float32, of which the largest count. x: [rows, hidden], normed.
Routing route(const Architecture& architecture, const at::Tensor& router, const at::Tensor& x);

// Sum over the chosen experts of weight * down(silu(gate x) * up x): [rows, hidden].
at::Tensor mixture_of_experts(const Architecture& architecture, const Layer& layer, const at::Tensor& x);

// While it lives, remembers which experts this thread's passes choose: [rows, experts_per_token] a layer and pass.
// For measuring how far the routing of a rollout and that of the learner are apart.
class RoutingLog {
 public:
  RoutingLog();
  ~RoutingLog();
  RoutingLog(const RoutingLog&) = delete;
  RoutingLog& operator=(const RoutingLog&) = delete;

  std::vector<at::Tensor> experts;

 private:
  RoutingLog* outer_;
};

}  // namespace millrace
