#include "models/trained_actions.hpp"

#include "models/actions.hpp"

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
