#include "models/token_scorer.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "models/actions.hpp"
#include "models/token_logp.hpp"
#include "models/transformer.hpp"

namespace millrace {

std::vector<float> TokenScorer::log_probs(const Sequence& sequence) const {
  const at::NoGradGuard no_gradient;
  check_shape(sequence);
  std::vector<float> result(sequence.tokens.size(), 0.0f);
  if (action_count(sequence) == 0) return result;
  const std::span<const Sequence> one(&sequence, 1);
  const at::Device device = weights_->weights.embedding.device();
  const Pack pack = make_pack(one, device);
  const at::Tensor rows = per_action<std::int64_t>(one, device, [&](auto i, auto t) { return pack.rows[i][t - 1]; });
  const at::Tensor tokens = per_action<std::int64_t>(one, device, [&](auto i, auto t) { return one[i].tokens[t]; });
  const at::Tensor temperature = at::full({rows.size(0)}, sequence.temperature, rows.options().dtype(at::kFloat));
  const at::Tensor hidden = hidden_states(weights_->architecture, weights_->weights, pack, rows);
  const at::Tensor logp = logp_in_pieces(weights_->weights, hidden, tokens, temperature).cpu().contiguous();
  const auto* next = logp.const_data_ptr<float>();
  for (std::size_t t = 0; t < result.size(); ++t) {
    if (sequence.mask[t]) result[t] = *next++;
  }
  return result;
}

}  // namespace millrace
