#include "models/policy_learner.hpp"

#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "models/actions.hpp"
#include "models/collective.hpp"
#include "models/compute.hpp"
#include "models/leaves.hpp"
#include "models/matrix_product.hpp"
#include "models/named_tensors.hpp"
#include "models/objectives/objective.hpp"
#include "models/optimizer.hpp"
#include "models/token_logp.hpp"
#include "models/trained_actions.hpp"
#include "models/transformer.hpp"
#include "models/weight_sets.hpp"

namespace millrace {

namespace {

// One bad number must not poison the others of its batch: such a sequence is left out, tokens and all.
bool takes_part(const Sequence& sequence, const std::vector<float>& advantages) {
  check_shape(sequence);
  for (std::size_t t = 0; t < sequence.mask.size(); ++t) {
    if (sequence.mask[t] && !(std::isfinite(sequence.behaviour[t]) && std::isfinite(advantages.at(t)))) return false;
  }
  return action_count(sequence) > 0;
}

at::Tensor logp_of(const Weights& weights, const at::Tensor& hidden, const Actions& actions) {
  return logp_in_pieces(weights, hidden, actions.tokens, actions.temperature);
}

}  // namespace

struct PolicyLearner::State {
  State(const Model& model, const PolicySettings& policy_settings, const Recipe& policy_recipe,
        std::shared_ptr<Collective> other_replicas)
      : replicas(std::move(other_replicas)),
        settings(policy_settings),
        recipe(policy_recipe),
        objective(objective_of(recipe)),
        compute(compute_of(policy_settings.dtype, policy_settings.device)),
        current(on_device(model.weights, compute.device)),
        weights(weights_of(*current, compute)),
        reference(recipe.loss.kl_weight > 0 ? weights : Weights{}),
        optimizer({.lr = settings.lr,
                   .beta1 = settings.beta1,
                   .beta2 = settings.beta2,
                   .weight_decay = settings.weight_decay},
                  tensors_of(current->weights, tied())) {
    for_each_tensor(weights, tied(),
                    [&](const std::string&, at::Tensor& tensor) { tensor = leaves.add(tensor, compute.dtype); });
    if (tied()) weights.head = weights.embedding;
  }

  bool tied() const { return current->architecture.tied; }

  // What a checkpoint holds of these weights and of the optimizer.
  NamedTensors with_optimizer(const Weights& masters) const {
    NamedTensors tensors;
    std::vector<std::string> names;
    for_each_tensor(masters, tied(), [&](const std::string& name, const at::Tensor& tensor) {
      tensors.push_back({name, tensor});
      names.push_back(name);
    });
    add_optimizer(tensors, optimizer, names);
    return tensors;
  }

  void open_batch() {
    if (!leaves.gradients().empty()) return;
    coming = sets.take(*current, compute.dtype);
    leaves.add_into(tensors_of(coming.weights, tied()));
  }

  // After the coming weights have been written where the gradient was.
  SnapshotPtr publish(Version version) {
    leaves.release_gradients();
    const auto snapshot = std::make_shared<const Snapshot>(version, current->architecture, std::move(coming.weights),
                                                           std::move(coming.narrow));
    const std::vector<at::Tensor> masters = tensors_of(snapshot->weights, tied());
    const std::vector<at::Tensor> computed_with = tensors_of(weights_of(*snapshot, compute), tied());
    if (compute.dtype != at::kFloat) {
      for (std::size_t i = 0; i < masters.size(); ++i) computed_with[i].copy_(masters[i]);
    }
    leaves.follow(computed_with);
    current = snapshot;
    sets.published(snapshot);
    return snapshot;
  }

  const at::Tensor& head_gradient() const {
    return tied() ? leaves.gradients().front() : leaves.gradients().back();  // the order of for_each_tensor
  }

  // Loss and gradient of some actions' logits. Adds to the head's gradient and writes that of the hidden states.
  PolicySums backward_of_logits(const Actions& actions, const at::Tensor& hidden, at::Tensor hidden_gradient) {
    TokenLogp distribution(logits_of(weights, hidden), actions.tokens, actions.temperature);
    ActionTokens tokens = actions.objective;
    tokens.logp = distribution.logp();
    // Of one update a batch the policy at its start is the policy as it is.
    if (objective.needs_proximal && !tokens.proximal.defined()) tokens.proximal = tokens.logp;
    TokenLoss loss = token_loss(tokens, recipe);
    const at::Tensor shares = shares_of(tokens, recipe);
    PolicySums part = policy_sums(tokens, loss, shares, distribution.entropy());
    at::Tensor entropy_gradient;
    if (recipe.loss.entropy_weight > 0) {
      part.loss -= recipe.loss.entropy_weight * (shares * distribution.entropy()).sum().item<double>();
      entropy_gradient = -recipe.loss.entropy_weight * shares;
    }
    const at::Tensor logits_gradient =
        std::move(distribution).logits_gradient(shares * loss.gradient, entropy_gradient);
    const at::Tensor narrow_gradient = logits_gradient.to(compute.dtype);
    add_weight_gradient(head_gradient(), narrow_gradient, hidden);
    at::mm_out(hidden_gradient, narrow_gradient, weights.head);
    return part;
  }

  const std::shared_ptr<Collective> replicas;
  const PolicySettings settings;
  const Recipe recipe;
  const Objective& objective;
  const Compute compute;
  SnapshotPtr current;  // the last published policy: the master weights
  Leaves leaves;
  Weights weights;  // the leaves, as the transformer takes them; they share the published tensors of their dtype
  const Weights reference;  // the policy at the start of the run, in the same dtype; only with a KL term
  AdamW optimizer;
  WeightSets sets;
  WeightSet coming;  // while a batch is open: the next version's memory, which holds the gradient until the step
  PolicySums sums;   // of the batch so far
  ImageGate gate;
};

PolicySums& PolicySums::operator+=(const PolicySums& other) {
  tokens += other.tokens;
  shares += other.shares;
  loss += other.loss;
  masked_low += other.masked_low;
  masked_high += other.masked_high;
  ratio += other.ratio;
  ratio_squared += other.ratio_squared;
  kept += other.kept;
  kept_squared += other.kept_squared;
  kl += other.kl;
  entropy += other.entropy;
  ratios += other.ratios;
  return *this;
}

PolicyLearner::PolicyLearner(const Model& model, const PolicySettings& settings, const Recipe& recipe,
                             std::shared_ptr<Collective> replicas)
    : state_(std::make_unique<State>(model, settings, recipe, std::move(replicas))) {}

PolicyLearner::~PolicyLearner() = default;

PolicySums PolicyLearner::accumulate(std::span<const Sequence> sequences,
                                     std::span<const std::vector<float>> advantages,
                                     std::span<const std::vector<float>> proximal) {
  State& s = *state_;
  std::vector<Sequence> taken;
  std::vector<std::vector<float>> their_advantages, their_proximal;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (!takes_part(sequences[i], advantages[i])) continue;
    taken.push_back(sequences[i]);
    their_advantages.push_back(advantages[i]);
    if (!proximal.empty()) their_proximal.push_back(proximal[i]);
  }
  if (taken.empty()) return {};
  s.open_batch();

  const Pack pack = make_pack(taken, s.compute.device);
  Actions actions = actions_of(pack, taken, their_advantages);
  at::Tensor hidden;
  {
    const at::AutoGradMode with_gradient(true);
    hidden = hidden_states(s.current->architecture, s.weights, pack, actions.rows, s.settings.recompute_activations);
  }
  const at::NoGradGuard no_gradient;
  if (s.objective.needs_sequence_ratio) {
    const at::Tensor logp = logp_of(s.weights, hidden, actions);
    actions.objective.sequence_log_ratio = mean_of_sequence(logp - actions.objective.behaviour, taken);
  }
  if (s.objective.needs_proximal && !their_proximal.empty()) {
    actions.objective.proximal =
        per_action<float>(taken, s.compute.device, [&](auto i, auto t) { return their_proximal[i][t]; });
  }
  if (s.recipe.loss.kl_weight > 0) {
    actions.objective.reference =
        logp_of(s.reference, hidden_states(s.current->architecture, s.reference, pack, actions.rows), actions);
  }
  const at::Tensor hidden_gradient = at::empty_like(hidden);
  PolicySums sums;
  for (std::int64_t begin = 0; begin < actions.rows.size(0); begin += rows_at_once) {
    const auto piece = [&](const at::Tensor& all) { return all.slice(0, begin, begin + rows_at_once); };
    sums += s.backward_of_logits(actions.slice(begin, begin + rows_at_once), piece(hidden), piece(hidden_gradient));
  }
  hidden.backward(hidden_gradient);
  s.sums += sums;
  return sums;
}

std::vector<std::vector<float>> PolicyLearner::log_probs(std::span<const Sequence> sequences) const {
  return log_probs_of(state_->current->architecture, state_->weights, sequences);
}

PolicyStep PolicyLearner::step(Version next) {
  State& s = *state_;
  const at::NoGradGuard no_gradient;
  PolicyStep result;
  result.sums = std::exchange(s.sums, {});
  double tokens = result.sums.tokens, shares = result.sums.shares;
  if (s.replicas) {
    s.open_batch();
    const auto of_all = s.replicas->sum(s.leaves.gradients(), {tokens, shares});
    tokens = of_all[0];
    shares = of_all[1];
  }
  if (tokens == 0) {
    result.skipped = "no action tokens";
    return result;
  }
  result.gradient_norm = global_norm(s.leaves.gradients()) / shares;
  if (s.replicas) s.replicas->check_equal(result.gradient_norm);
  if (!std::isfinite(result.gradient_norm)) {
    s.leaves.drop_gradients();
    result.skipped = "non-finite gradient";
    return result;
  }
  s.gate.wait();
  const double scale = clip_factor(result.gradient_norm, s.settings.max_gradient_norm) / shares;
  s.optimizer.step(tensors_of(s.current->weights, s.tied()), s.leaves.gradients(), scale, s.leaves.gradients());
  result.weights = s.publish(next);
  return result;
}

LearnerImagePtr PolicyLearner::image() {
  return make_image(state_->with_optimizer(state_->current->weights), state_->gate);
}

expected<SnapshotPtr> PolicyLearner::restore(std::span<const TensorView> image, Version version) {
  State& s = *state_;
  const at::NoGradGuard no_gradient;
  s.gate.wait();
  s.open_batch();
  const NamedTensors tensors = s.with_optimizer(s.coming.weights);
  if (auto copied = copy_image(image, tensors); !copied) return tl::unexpected(copied.error());
  restore_steps(s.optimizer, tensors);
  s.sums = {};
  return s.publish(version);
}

double PolicyLearner::learning_rate() const { return state_->optimizer.learning_rate(); }
void PolicyLearner::slow_down(double factor) { state_->optimizer.slow_down(factor); }

std::vector<float> PolicyLearner::gradient() const { return state_->leaves.flat_gradient(); }

}  // namespace millrace
