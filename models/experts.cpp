#include "models/experts.hpp"

#include <utility>

#include "models/operations.hpp"

namespace millrace {

namespace {

thread_local RoutingLog* log_of_thread = nullptr;

}  // namespace

RoutingLog::RoutingLog() : outer_(std::exchange(log_of_thread, this)) {}
RoutingLog::~RoutingLog() { log_of_thread = outer_; }

Routing route(const Architecture& architecture, const at::Tensor& router, const at::Tensor& x) {
  const at::Tensor probabilities = project(x, router).to(at::kFloat).softmax(-1);
  auto [weights, experts] = probabilities.topk(architecture.experts_per_token, -1);
  if (log_of_thread) log_of_thread->experts.push_back(experts.detach());
  if (architecture.normalised_experts) weights = weights / weights.sum(-1, /*keepdim=*/true);
  return {experts, weights.to(x.scalar_type())};
}

at::Tensor mixture_of_experts(const Architecture& architecture, const Layer& layer, const at::Tensor& x) {
  const Routing routing = route(architecture, layer.router, x);
  // Every (row, expert) pair once, those of an expert side by side.
  const at::Tensor pairs = routing.experts.flatten();
  const at::Tensor order = pairs.argsort(/*stable=*/true, -1, /*descending=*/false);
  const at::Tensor rows = order.div(architecture.experts_per_token, "floor");
  const at::Tensor weights = routing.weights.flatten().index_select(0, order).unsqueeze(1);
  const at::Tensor counts = pairs.bincount({}, architecture.experts).cpu();
  const auto* count = counts.const_data_ptr<std::int64_t>();
  const at::Tensor inputs = x.index_select(0, rows);
  std::vector<at::Tensor> outputs;
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < architecture.experts; begin += count[e++]) {
    if (count[e] == 0) continue;
    const at::Tensor mine = inputs.narrow(0, begin, count[e]);
    outputs.push_back(
        project_part(gated(project_part(mine, layer.gate, e), project_part(mine, layer.up, e)), layer.down, e));
  }
  return at::zeros_like(x).index_add(0, rows, at::cat(outputs) * weights);
}

}  // namespace millrace
