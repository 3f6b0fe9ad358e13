#include "models/value_learner.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "models/actions.hpp"
#include "models/collective.hpp"
#include "models/critic.hpp"
#include "models/named_tensors.hpp"
#include "models/objectives/explained_variance.hpp"
#include "models/objectives/gae.hpp"
#include "models/objectives/reward_levels.hpp"
#include "models/objectives/running_rms.hpp"

namespace millrace {

namespace {

constexpr std::size_t explained_trajectories = 128;

bool takes_part(const Sequence& sequence) {
  check_shape(sequence);
  for (const float reward : sequence.rewards) {
    if (!std::isfinite(reward)) return false;
  }
  return action_count(sequence) > 0;
}

// A sequence that takes no part has NaN advantages, which make the policy learner leave it out as well.
Valuation no_valuation(const Sequence& sequence) {
  Valuation nothing;
  nothing.values.assign(sequence.mask.size(), 0.0f);
  nothing.targets = nothing.values;
  for (const auto is_action : sequence.mask) nothing.advantages.push_back(is_action ? std::nanf("") : 0.0f);
  return nothing;
}

// What went through the critic in one pass, for the passes after the first update.
struct Arrived {
  std::vector<Sequence> sequences;
  at::Tensor targets;  // [action tokens]
};

}  // namespace

struct ValueLearner::State {
  State(const Model& model, const ValueSettings& settings, const Baseline& value_baseline,
        std::shared_ptr<Collective> other_replicas)
      : replicas(std::move(other_replicas)),
        baseline(value_baseline),
        updates_per_step(settings.updates_per_step),
        critic(model.weights, settings) {}

  // What of a sequence is a transition stands in its mask: the actions or, in plain GAE, all from the first action on.
  Sequence with_transitions(Sequence sequence) const {
    if (baseline.skip_observations) return sequence;
    auto& mask = sequence.mask;
    std::fill(std::find(mask.begin(), mask.end(), std::uint8_t{1}), mask.end(), std::uint8_t{1});
    return sequence;
  }

  // Values before each token of a sequence, 0 where it is no action. `values` points to those of its action tokens.
  static std::vector<double> values_at_tokens(const Sequence& sequence, const float* values) {
    std::vector<double> before(sequence.mask.size(), 0.0);
    for (std::size_t t = 0; t < before.size(); ++t) {
      if (sequence.mask[t]) before[t] = *values++;
    }
    return before;
  }

  // Values and returns at the actions of these sequences, under the critic as it is.
  std::pair<std::vector<double>, std::vector<double>> predictions_of(std::span<const Sequence> sequences) const {
    const at::NoGradGuard no_gradient;
    const at::Tensor values = critic.values_of(sequences).cpu();
    const auto* before = values.const_data_ptr<float>();
    const auto* after_last = before + values.numel() - static_cast<std::int64_t>(sequences.size());
    std::vector<double> predicted, returns;
    for (const Sequence& sequence : sequences) {
      const std::vector<double> at_tokens = values_at_tokens(sequence, before);
      before += action_count(sequence);
      const double bootstrap = sequence.terminal ? 0.0 : *after_last;
      ++after_last;
      const auto errors = skip_observation_gae(sequence.mask, at_tokens, sequence.rewards, bootstrap, baseline.gamma,
                                               baseline.lambda_value);
      for (std::size_t t = 0; t < at_tokens.size(); ++t) {
        if (!sequence.mask[t]) continue;
        predicted.push_back(at_tokens[t]);
        returns.push_back(errors[t] + at_tokens[t]);
      }
    }
    return {predicted, returns};
  }

  // After a shift the bias takes up, at once, the mean of what a new reward gives beyond what the critic predicts.
  void follow_reward(std::vector<Sequence>& sequences) {
    std::uint64_t newest = 0;
    for (const Sequence& sequence : sequences) newest = std::max(newest, sequence.reward_version);
    if (levels.finding(newest)) {
      std::vector<Sequence> under_newest;
      for (const Sequence& sequence : sequences) {
        if (sequence.reward_version == newest) under_newest.push_back(sequence);
      }
      const auto [predicted, returns] = predictions_of(under_newest);
      const double surplus = std::accumulate(returns.begin(), returns.end(), 0.0) -
                             std::accumulate(predicted.begin(), predicted.end(), 0.0);
      gate.wait();
      critic.raise(levels.found(surplus / static_cast<double>(returns.size()), under_newest.size()));
      window = ExplainedVarianceWindow(explained_trajectories);
      seen.clear();
    }
    for (Sequence& sequence : sequences) {
      if (sequence.terminal)
        sequence.rewards.back() += static_cast<float>(levels.below_newest(sequence.reward_version));
    }
  }

  // `values` points to those of this sequence's action tokens.
  Valuation valuation_of(const Sequence& sequence, const float* values, double after_last) {
    const std::size_t length = sequence.mask.size();
    const std::vector<double> before = values_at_tokens(sequence, values);
    const double bootstrap = sequence.terminal ? 0.0 : after_last;
    const auto pass = [&](double lambda) {
      return skip_observation_gae(sequence.mask, before, sequence.rewards, bootstrap, baseline.gamma, lambda);
    };
    const double lambda_policy = length_adaptive_lambda(baseline.lambda_policy_alpha, action_count(sequence));
    const std::vector<double> policy_pass = pass(lambda_policy), value_pass = pass(baseline.lambda_value);

    Valuation valuation;
    valuation.values.assign(before.begin(), before.end());
    valuation.advantages.assign(length, 0.0f);
    valuation.targets.assign(length, 0.0f);
    ExplainedVarianceWindow::Entry entry;
    for (std::size_t t = 0; t < length; ++t) {
      if (!sequence.mask[t]) continue;
      const double target = value_pass[t] + before[t];
      valuation.advantages[t] = static_cast<float>(policy_pass[t] / rms.divisor());
      valuation.targets[t] = static_cast<float>(target);
      tokens += 1;
      advantage_squares += policy_pass[t] * policy_pass[t];
      error_squares += (before[t] - target) * (before[t] - target);
      entry.values.push_back(before[t]);
      entry.returns.push_back(target);
    }
    seen.push_back(std::move(entry));
    return valuation;
  }

  // What a checkpoint holds in fixed shapes.
  NamedTensors state_tensors() const {
    NamedTensors tensors;
    critic.add_to(tensors);
    tensors.push_back({"advantage_rms", at::tensor({rms.mean_square(), rms.weight()}, at::kDouble)});
    return tensors;
  }

  void start_next_batch() {
    arrived.clear();
    seen.clear();
    tokens = advantage_squares = error_squares = 0;
  }

  // The open batch becomes that of all replicas: gradients, counts, squares. Each has raised its critic by the level of
  // the rewards that it has seen itself; they go on from the mean.
  void join_replicas() {
    if (!replicas) return;
    const auto of_all = replicas->sum(critic.gradients(), {tokens, advantage_squares, error_squares, critic.bias()});
    tokens = of_all[0];
    advantage_squares = of_all[1];
    error_squares = of_all[2];
    critic.raise(of_all[3] / replicas->replicas() - critic.bias());
  }

  const std::shared_ptr<Collective> replicas;
  const Baseline baseline;
  const int updates_per_step;
  Critic critic;
  RunningRms rms;
  RewardLevels levels;
  ExplainedVarianceWindow window{explained_trajectories};
  ImageGate gate;

  // Of the batch so far, over action tokens. Not part of an image: who goes on from one sees the batch again.
  std::vector<Arrived> arrived;
  std::vector<ExplainedVarianceWindow::Entry> seen;
  double tokens = 0;
  double advantage_squares = 0;
  double error_squares = 0;
};

ValueLearner::ValueLearner(const Model& backbone, const ValueSettings& settings, const Baseline& baseline,
                           std::shared_ptr<Collective> replicas)
    : state_(std::make_unique<State>(backbone, settings, baseline, std::move(replicas))) {}

ValueLearner::~ValueLearner() = default;

std::vector<Valuation> ValueLearner::arrive(std::span<const Sequence> sequences) {
  State& s = *state_;
  const at::AutoGradMode with_gradient(true);
  std::vector<Valuation> valuations;
  std::vector<std::size_t> places;  // of those that take part
  Arrived arrived;
  for (const Sequence& sequence : sequences) {
    if (takes_part(sequence)) {
      places.push_back(valuations.size());
      arrived.sequences.push_back(s.with_transitions(sequence));
    }
    valuations.push_back(no_valuation(sequence));
  }
  if (places.empty()) return valuations;
  s.follow_reward(arrived.sequences);

  const at::Tensor values = s.critic.values_of(arrived.sequences);
  const at::Tensor values_here = values.detach().cpu();
  const auto* before = values_here.const_data_ptr<float>();
  const auto* after_last = before + values.numel() - static_cast<std::int64_t>(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    valuations[places[i]] = s.valuation_of(arrived.sequences[i], before, *after_last++);
    before += action_count(arrived.sequences[i]);
  }
  arrived.targets = per_action<float>(arrived.sequences, values.device(),
                                      [&](auto i, auto t) { return valuations[places[i]].targets[t]; });
  Critic::backward(values, arrived.targets);
  s.arrived.push_back(std::move(arrived));
  return valuations;
}

ValueStep ValueLearner::step(const std::function<void()>& between) {
  State& s = *state_;
  const at::AutoGradMode with_gradient(true);
  s.gate.wait();
  ValueStep result;
  for (auto& [values, returns] : s.seen) s.window.add(std::move(values), std::move(returns));
  result.explained_variance = s.window.value();
  s.join_replicas();
  if (s.tokens > 0) {
    result.loss = 0.5 * s.error_squares / s.tokens;
    result.gradient_norm = s.critic.gradient_norm(s.tokens);
    if (s.replicas) s.replicas->check_equal(result.gradient_norm);
  }
  result.skipped = s.tokens == 0 || !s.critic.update(result.gradient_norm, s.tokens);
  if (!result.skipped) {
    s.rms.update(s.advantage_squares, s.tokens);
    for (int pass = 1; pass < s.updates_per_step; ++pass) {
      for (const Arrived& part : s.arrived) {
        between();
        Critic::backward(s.critic.values_of(part.sequences), part.targets);
      }
      if (s.replicas) s.replicas->sum(s.critic.gradients());
      if (!s.critic.update(s.critic.gradient_norm(s.tokens), s.tokens)) break;
    }
  }
  result.advantage_rms = s.rms.divisor();
  s.start_next_batch();
  return result;
}

LearnerImagePtr ValueLearner::image() {
  State& s = *state_;
  NamedTensors tensors = s.state_tensors();
  std::vector<double> values, returns;
  std::vector<std::int64_t> lengths;
  for (const auto& entry : s.window.entries()) {
    values.insert(values.end(), entry.values.begin(), entry.values.end());
    returns.insert(returns.end(), entry.returns.begin(), entry.returns.end());
    lengths.push_back(static_cast<std::int64_t>(entry.values.size()));
  }
  tensors.push_back({"explained.values", at::tensor(values, at::kDouble)});
  tensors.push_back({"explained.returns", at::tensor(returns, at::kDouble)});
  tensors.push_back({"explained.lengths", at::tensor(lengths, at::kLong)});
  tensors.push_back({"reward_levels", at::tensor(s.levels.numbers(), at::kDouble)});
  return make_image(std::move(tensors), s.gate);
}

expected<void> ValueLearner::restore(std::span<const TensorView> image) {
  State& s = *state_;
  const at::NoGradGuard no_gradient;
  s.gate.wait();
  const auto values = tensor_of(image, "explained.values"), returns = tensor_of(image, "explained.returns"),
             lengths = tensor_of(image, "explained.lengths"), levels = tensor_of(image, "reward_levels");
  for (const auto* found : {&values, &returns, &lengths, &levels}) {
    if (!*found) return tl::unexpected(found->error());
  }
  const NamedTensors tensors = s.state_tensors();
  if (auto copied = copy_image(image, tensors); !copied) return copied;
  for (const NamedTensor& named : tensors) {
    if (named.name != "advantage_rms") continue;
    s.rms.restore(named.tensor[0].item<double>(), named.tensor[1].item<double>());
  }
  s.window = ExplainedVarianceWindow(explained_trajectories);
  const double *value = values->const_data_ptr<double>(), *its_return = returns->const_data_ptr<double>();
  for (std::int64_t i = 0; i < lengths->numel(); ++i) {
    const std::int64_t length = lengths->const_data_ptr<std::int64_t>()[i];
    s.window.add({value, value + length}, {its_return, its_return + length});
    value += length;
    its_return += length;
  }
  s.levels.restore({levels->const_data_ptr<double>(), static_cast<std::size_t>(levels->numel())});
  s.critic.restored(tensors);
  s.start_next_batch();
  return {};
}

double ValueLearner::explained_variance_of(std::span<const Sequence> sequences) {
  std::vector<double> values, returns;
  for (const Sequence& sequence : sequences) {
    if (!takes_part(sequence)) continue;
    const Sequence valued = state_->with_transitions(sequence);
    const auto [predicted, returned] = state_->predictions_of({&valued, 1});
    values.insert(values.end(), predicted.begin(), predicted.end());
    returns.insert(returns.end(), returned.begin(), returned.end());
  }
  return explained_variance(values, returns);
}

std::vector<float> ValueLearner::gradient() const { return state_->critic.gradient(); }

}  // namespace millrace
