#include "models/policy_learner.hpp"

#include <atomic>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "models/actions.hpp"
#include "models/leaves.hpp"
#include "models/objectives/dis.hpp"
#include "models/optimizer.hpp"
#include "models/token_logp.hpp"
#include "models/transformer.hpp"

namespace millrace {

namespace {

constexpr std::int64_t rows_at_once = 256;  // of logits: 50 MB in float32 for a vocabulary of 49152

std::vector<at::Tensor> tensors_of(const Snapshot& snapshot) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(snapshot.weights, snapshot.architecture.tied,
                  [&](const std::string&, const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

// Memory for weights to come. A set is used again once nobody holds the snapshot that was made of it.
class WeightSets {
 public:
  // Weights of the shapes of `like`, with any content.
  Weights take(const Snapshot& like) {
    for (auto published = published_.begin(); published != published_.end(); ++published) {
      if (published->use_count() > 1) continue;
      // Whoever held it has read for the last time before letting go; what we write comes after.
      std::atomic_thread_fence(std::memory_order_acquire);
      Weights weights = (*published)->weights;
      published_.erase(published);
      return weights;
    }
    Weights weights = like.weights;
    const bool tied = like.architecture.tied;
    for_each_tensor(weights, tied, [](const std::string&, at::Tensor& tensor) { tensor = at::empty_like(tensor); });
    if (tied) weights.head = weights.embedding;
    return weights;
  }
  void published(SnapshotPtr snapshot) { published_.push_back(std::move(snapshot)); }

 private:
  std::vector<SnapshotPtr> published_;  // only ours: the weights a model was loaded with are never written
};

// One bad number must not poison the others of its batch: such a sequence is left out, tokens and all.
bool takes_part(const Sequence& sequence, const std::vector<float>& advantages) {
  check_shape(sequence);
  for (std::size_t t = 0; t < sequence.mask.size(); ++t) {
    if (sequence.mask[t] && !(std::isfinite(sequence.behaviour[t]) && std::isfinite(advantages.at(t)))) return false;
  }
  return action_count(sequence) > 0;
}

// What the loss needs to know of each action token, [tokens].
struct Actions {
  at::Tensor rows;  // of the hidden states: where the token is predicted, the row of the token before it
  at::Tensor tokens, temperature, behaviour, advantage;

  Actions slice(std::int64_t begin, std::int64_t end) const {
    return {rows.slice(0, begin, end), tokens.slice(0, begin, end), temperature.slice(0, begin, end),
            behaviour.slice(0, begin, end), advantage.slice(0, begin, end)};
  }
};

Actions actions_of(const Pack& pack, std::span<const Sequence> sequences,
                   std::span<const std::vector<float>> advantages) {
  return {.rows = per_action<std::int64_t>(sequences, [&](auto i, auto t) { return pack.rows[i][t - 1]; }),
          .tokens = per_action<std::int64_t>(sequences, [&](auto i, auto t) { return sequences[i].tokens[t]; }),
          .temperature =
              per_action<float>(sequences, [&](auto i, auto) { return static_cast<float>(sequences[i].temperature); }),
          .behaviour = per_action<float>(sequences, [&](auto i, auto t) { return sequences[i].behaviour[t]; }),
          .advantage = per_action<float>(sequences, [&](auto i, auto t) { return advantages[i][t]; })};
}

}  // namespace

struct PolicyLearner::State {
  State(const Model& model, const PolicySettings& policy_settings, const TrustRegion& trust_region)
      : settings(policy_settings),
        region(trust_region),
        dtype(compute_dtype(policy_settings.dtype)),
        current(model.weights),
        optimizer({.lr = settings.lr,
                   .beta1 = settings.beta1,
                   .beta2 = settings.beta2,
                   .weight_decay = settings.weight_decay},
                  tensors_of(*current)) {
    weights = current->weights;
    for_each_tensor(weights, tied(),
                    [&](const std::string&, at::Tensor& tensor) { tensor = leaves.add(tensor, dtype); });
    if (tied()) weights.head = weights.embedding;
  }

  bool tied() const { return current->architecture.tied; }

  const at::Tensor& head_gradient() const {
    return tied() ? leaves.gradients().front() : leaves.gradients().back();  // the order of for_each_tensor
  }

  // Loss and gradient of some actions' logits. Adds to the head's gradient and to that of the hidden states.
  PolicySums backward_of_logits(const Actions& actions, const at::Tensor& hidden, const at::Tensor& hidden_gradient) {
    const at::Tensor inputs = hidden.index_select(0, actions.rows);
    TokenLogp distribution(logits_of(weights, inputs), actions.tokens, actions.temperature);
    const at::Tensor logp = distribution.logp();
    const PolicySums part = dis_sums(logp, actions.behaviour, actions.advantage, distribution.entropy(), region);

    const at::Tensor logp_gradient = dis_gradient(logp, actions.behaviour, actions.advantage, region);
    const at::Tensor logits_gradient = std::move(distribution).logits_gradient(logp_gradient);
    head_gradient().addmm_(logits_gradient.t(), inputs.to(at::kFloat));
    hidden_gradient.index_add_(0, actions.rows, logits_gradient.to(dtype).mm(weights.head));
    return part;
  }

  const PolicySettings settings;
  const TrustRegion region;
  const at::ScalarType dtype;
  SnapshotPtr current;  // the last published policy: the master weights
  Leaves leaves;
  Weights weights;  // the leaves, as the transformer takes them
  AdamW optimizer;
  WeightSets sets;
  PolicySums sums;  // of the batch so far
};

PolicySums& PolicySums::operator+=(const PolicySums& other) {
  tokens += other.tokens;
  loss += other.loss;
  masked_low += other.masked_low;
  masked_high += other.masked_high;
  ratio += other.ratio;
  ratio_squared += other.ratio_squared;
  kept += other.kept;
  kept_squared += other.kept_squared;
  kl += other.kl;
  entropy += other.entropy;
  return *this;
}

PolicyLearner::PolicyLearner(const Model& model, const PolicySettings& settings, const TrustRegion& region)
    : state_(std::make_unique<State>(model, settings, region)) {}

PolicyLearner::~PolicyLearner() = default;

PolicySums PolicyLearner::accumulate(std::span<const Sequence> sequences,
                                     std::span<const std::vector<float>> advantages) {
  State& s = *state_;
  std::vector<Sequence> taken;
  std::vector<std::vector<float>> their_advantages;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (!takes_part(sequences[i], advantages[i])) continue;
    taken.push_back(sequences[i]);
    their_advantages.push_back(advantages[i]);
  }
  if (taken.empty()) return {};

  const Pack pack = make_pack(taken, s.dtype);
  const Actions actions = actions_of(pack, taken, their_advantages);
  at::Tensor hidden;
  {
    const at::AutoGradMode with_gradient(true);
    hidden = hidden_states(s.current->architecture, s.weights, pack);
  }
  const at::NoGradGuard no_gradient;
  const at::Tensor hidden_gradient = at::zeros_like(hidden);
  PolicySums sums;
  for (std::int64_t begin = 0; begin < actions.rows.size(0); begin += rows_at_once) {
    sums += s.backward_of_logits(actions.slice(begin, begin + rows_at_once), hidden, hidden_gradient);
  }
  hidden.backward(hidden_gradient);
  s.leaves.collect();
  s.sums += sums;
  return sums;
}

PolicyStep PolicyLearner::step(Version next) {
  State& s = *state_;
  const at::NoGradGuard no_gradient;
  PolicyStep result;
  result.sums = std::exchange(s.sums, {});
  if (result.sums.tokens == 0) {
    result.skipped = "no action tokens";
    return result;
  }
  result.gradient_norm = global_norm(s.leaves.gradients()) / result.sums.tokens;
  if (!std::isfinite(result.gradient_norm)) {
    s.leaves.drop_gradients();
    result.skipped = "non-finite gradient";
    return result;
  }
  const double scale = clip_factor(result.gradient_norm, s.settings.max_gradient_norm) / result.sums.tokens;
  const auto published = std::make_shared<const Snapshot>(next, s.current->architecture, s.sets.take(*s.current));
  const std::vector<at::Tensor> masters = tensors_of(*published);
  s.optimizer.step(tensors_of(*s.current), s.leaves.gradients(), scale, masters);
  s.leaves.follow(masters);
  s.current = published;
  s.sets.published(published);
  result.weights = published;
  return result;
}

std::vector<float> PolicyLearner::gradient() const { return state_->leaves.flat_gradient(); }

}  // namespace millrace
