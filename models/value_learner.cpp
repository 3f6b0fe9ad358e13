#include "models/value_learner.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "models/actions.hpp"
#include "models/dtype.hpp"
#include "models/leaves.hpp"
#include "models/named_tensors.hpp"
#include "models/objectives/explained_variance.hpp"
#include "models/objectives/gae.hpp"
#include "models/objectives/reward_levels.hpp"
#include "models/objectives/running_rms.hpp"
#include "models/optimizer.hpp"
#include "models/transformer.hpp"

namespace millrace {

namespace {

constexpr std::size_t explained_trajectories = 128;

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
  State(const Model& model, const ValueSettings& value_settings, const Baseline& value_baseline)
      : settings(value_settings),
        baseline(value_baseline),
        dtype(compute_dtype(value_settings.dtype)),
        backbone(model.weights),
        weights(backbone->weights) {
    weights.head = at::Tensor();  // a critic predicts no tokens
    for_each_tensor(weights, /*tied=*/true, [&](const std::string& name, at::Tensor& tensor) {
      if (is_frozen(name, settings.freeze, backbone->architecture.experts > 0)) {
        tensor = tensor.to(dtype);  // float32: the backbone's own memory
      } else {
        masters.push_back(tensor.clone());
        names.push_back(name);
        tensor = leaves.add(masters.back(), dtype);
      }
    });
    // A zero head: before anything is learned every value is 0 and the advantages are the returns.
    masters.push_back(at::zeros({1, backbone->architecture.hidden}, at::kFloat));
    head = leaves.add(masters.back(), at::kFloat);
    masters.push_back(at::zeros({1}, at::kFloat));
    bias = leaves.add(masters.back(), at::kFloat);
    names.insert(names.end(), {"value_head.weight", "value_head.bias"});
    optimizer.emplace(
        AdamWSettings{
            .lr = settings.lr, .beta1 = settings.beta1, .beta2 = settings.beta2, .weight_decay = settings.weight_decay},
        masters);
  }

  // What of a sequence is a transition stands in its mask: the actions or, in plain GAE, all from the first action on.
  Sequence with_transitions(Sequence sequence) const {
    if (baseline.skip_observations) return sequence;
    auto& mask = sequence.mask;
    std::fill(std::find(mask.begin(), mask.end(), std::uint8_t{1}), mask.end(), std::uint8_t{1});
    return sequence;
  }

  // Values before every action token, then those after the last token of every sequence: [action tokens + sequences].
  at::Tensor values_of(std::span<const Sequence> sequences) const {
    const Pack pack = make_pack(sequences, dtype);
    const at::Tensor before = per_action<std::int64_t>(sequences, [&](auto i, auto t) { return pack.rows[i][t - 1]; });
    std::vector<std::int64_t> last;
    for (const auto& rows : pack.rows) last.push_back(rows.back());
    const at::Tensor rows = at::cat({before, at::tensor(last)});
    const at::Tensor hidden = hidden_states(backbone->architecture, weights, pack);
    return at::linear(hidden.index_select(0, rows).to(at::kFloat), head, bias).squeeze(1);
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
    const at::Tensor values = values_of(sequences);
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
      const at::NoGradGuard no_gradient;
      gate.wait();
      masters.back().add_(levels.found(surplus / static_cast<double>(returns.size()), under_newest.size()));
      window = ExplainedVarianceWindow(explained_trajectories);
      seen.clear();
    }
    for (Sequence& sequence : sequences) {
      if (sequence.terminal)
        sequence.rewards.back() += static_cast<float>(levels.below_newest(sequence.reward_version));
    }
  }

  // The gradient of sum 0.5 (V - R)^2 is V - R; values after the last token have no target.
  void backward(const at::Tensor& values, const at::Tensor& targets) {
    const at::Tensor of_actions = values.slice(0, 0, targets.size(0));
    of_actions.backward((of_actions - targets).detach());
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

  // One update with the mean gradient of the batch. False where it is not finite: it is dropped, nothing changes.
  bool update(double norm) {
    if (!std::isfinite(norm)) {
      leaves.drop_gradients();
      return false;
    }
    optimizer->step(masters, leaves.gradients(), clip_factor(norm, settings.max_gradient_norm) / tokens, masters);
    leaves.follow(masters);
    return true;
  }

  double mean_gradient_norm() const { return global_norm(leaves.gradients()) / tokens; }

  // What a checkpoint holds in fixed shapes.
  NamedTensors state_tensors() const {
    NamedTensors tensors;
    for (std::size_t i = 0; i < masters.size(); ++i) tensors.push_back({names[i], masters[i]});
    tensors.push_back({"advantage_rms", at::tensor({rms.mean_square(), rms.weight()}, at::kDouble)});
    add_optimizer(tensors, *optimizer, names);
    return tensors;
  }

  void start_next_batch() {
    arrived.clear();
    seen.clear();
    tokens = advantage_squares = error_squares = 0;
  }

  const ValueSettings settings;
  const Baseline baseline;
  const at::ScalarType dtype;
  const SnapshotPtr backbone;  // held: frozen tensors are its own
  Leaves leaves;
  Weights weights;                  // leaves and frozen tensors, as the transformer takes them
  at::Tensor head, bias;            // leaves [1, hidden] and [1]
  std::vector<std::string> names;   // of the masters
  std::vector<at::Tensor> masters;  // in the order of the leaves; updated in place, for nobody else reads them
  std::optional<AdamW> optimizer;
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

ValueLearner::ValueLearner(const Model& backbone, const ValueSettings& settings, const Baseline& baseline)
    : state_(std::make_unique<State>(backbone, settings, baseline)) {}

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

  const at::Tensor values = s.values_of(arrived.sequences);
  const auto* before = values.const_data_ptr<float>();
  const auto* after_last = before + values.numel() - static_cast<std::int64_t>(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    valuations[places[i]] = s.valuation_of(arrived.sequences[i], before, *after_last++);
    before += action_count(arrived.sequences[i]);
  }
  arrived.targets =
      per_action<float>(arrived.sequences, [&](auto i, auto t) { return valuations[places[i]].targets[t]; });
  s.backward(values, arrived.targets);
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
  if (s.tokens > 0) {
    result.loss = 0.5 * s.error_squares / s.tokens;
    result.gradient_norm = s.mean_gradient_norm();
  }
  result.skipped = s.tokens == 0 || !s.update(result.gradient_norm);
  if (!result.skipped) {
    s.rms.update(s.advantage_squares, s.tokens);
    for (int pass = 1; pass < s.settings.updates_per_step; ++pass) {
      for (const Arrived& part : s.arrived) {
        between();
        s.backward(s.values_of(part.sequences), part.targets);
      }
      if (!s.update(s.mean_gradient_norm())) break;
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
    if (named.name == "optimizer.steps") s.optimizer->set_steps(named.tensor.item<std::int64_t>());
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
  s.leaves.drop_gradients();
  s.leaves.follow(s.masters);
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

std::vector<float> ValueLearner::gradient() const { return state_->leaves.flat_gradient(); }

}  // namespace millrace
