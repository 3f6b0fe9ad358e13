#include "models/trained_actions.hpp"

#include <ATen/core/grad_mode.h>

#include "models/actions.hpp"
#include "models/token_logp.hpp"

namespace millrace {

namespace {

// Sum of all rewards: what the trajectory was worth.
double reward_of(const Sequence& sequence) {
  double sum = 0;
  for (const float reward : sequence.rewards) sum += reward;
  return sum;
}

}  // namespace

Actions actions_of(const Pack& pack, std::span<const Sequence> sequences) {
  const at::Device device = pack.tokens.device();
  Actions actions;
  actions.rows = per_action<std::int64_t>(sequences, device, [&](auto i, auto t) { return pack.rows[i][t - 1]; });
  actions.tokens = per_action<std::int64_t>(sequences, device, [&](auto i, auto t) { return sequences[i].tokens[t]; });
  actions.temperature =
      per_action<float>(sequences, device, [&](auto i, auto) { return static_cast<float>(sequences[i].temperature); });
  return actions;
}

Actions actions_of(const Pack& pack, std::span<const Sequence> sequences,
                   std::span<const std::vector<float>> advantages) {
  const at::Device device = pack.tokens.device();
  Actions actions = actions_of(pack, sequences);
  std::vector<float> lengths, rewarded;
  for (const Sequence& sequence : sequences) {
    lengths.push_back(static_cast<float>(action_count(sequence)));
    rewarded.push_back(reward_of(sequence) > 0 ? 1.0f : 0.0f);
  }
  actions.objective.behaviour =
      per_action<float>(sequences, device, [&](auto i, auto t) { return sequences[i].behaviour[t]; });
  actions.objective.advantage = per_action<float>(sequences, device, [&](auto i, auto t) { return advantages[i][t]; });
  actions.objective.length = per_action<float>(sequences, device, [&](auto i, auto) { return lengths[i]; });
  actions.objective.rewarded = per_action<float>(sequences, device, [&](auto i, auto) { return rewarded[i]; });
  return actions;
}

std::vector<std::vector<float>> log_probs_of(const Architecture& architecture, const Weights& weights,
                                             std::span<const Sequence> sequences) {
  const at::NoGradGuard no_gradient;
  std::vector<std::vector<float>> result;
  std::size_t actions_in_all = 0;
  for (const Sequence& sequence : sequences) {
    check_shape(sequence);
    result.emplace_back(sequence.tokens.size(), 0.0f);
    actions_in_all += action_count(sequence);
  }
  if (actions_in_all == 0) return result;
  const Pack pack = make_pack(sequences, weights.embedding.device());
  const Actions actions = actions_of(pack, sequences);
  const at::Tensor hidden = hidden_states(architecture, weights, pack, actions.rows);
  const at::Tensor logp = logp_in_pieces(weights, hidden, actions.tokens, actions.temperature).cpu().contiguous();
  const auto* next = logp.const_data_ptr<float>();
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    for (std::size_t t = 0; t < sequences[i].mask.size(); ++t) {
      if (sequences[i].mask[t]) result[i][t] = *next++;
    }
  }
  return result;
}

at::Tensor mean_of_sequence(const at::Tensor& numbers, std::span<const Sequence> sequences) {
  std::vector<at::Tensor> means;
  std::int64_t begin = 0;
  for (const Sequence& sequence : sequences) {
    const auto length = static_cast<std::int64_t>(action_count(sequence));
    means.push_back(numbers.slice(0, begin, begin + length).mean().expand({length}));
    begin += length;
  }
  return at::cat(means);
}

}  // namespace millrace
