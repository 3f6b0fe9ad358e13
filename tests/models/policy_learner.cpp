#include "models/policy_learner.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "tests/models/learner_fixture.hpp"

#include "models/optimizer.hpp"

namespace millrace {
namespace {

using namespace testing;

Batch reversed(Batch batch) {
  std::reverse(batch.sequences.begin(), batch.sequences.end());
  std::reverse(batch.advantages.begin(), batch.advantages.end());
  return batch;
}

// Gradient of the summed loss by plain autograd, one sequence at a time.
std::vector<float> reference_gradient(const Model& model, const Batch& batch, double& loss) {
  const Snapshot& snapshot = *model.weights;
  const bool tied = snapshot.architecture.tied;
  Weights weights = snapshot.weights;
  std::vector<at::Tensor> leaves;
  for_each_tensor(weights, tied, [&](const std::string&, at::Tensor& tensor) {
    leaves.push_back(tensor = tensor.clone().requires_grad_(true));
  });
  if (tied) weights.head = weights.embedding;
  loss = 0;
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const Sequence& sequence = batch.sequences[i];
    const at::Tensor hidden = hidden_states(snapshot.architecture, weights, make_pack({&sequence, 1}));
    const at::Tensor all = at::log_softmax(at::linear(hidden, weights.head) / sequence.temperature, 1);
    for (std::size_t t = 1; t < sequence.tokens.size(); ++t) {
      if (!sequence.mask[t]) continue;
      const at::Tensor logp = all[static_cast<std::int64_t>(t) - 1][sequence.tokens[t]];
      // f(r) A logp with f(r) = r inside the band
      const double ratio = std::exp(logp.item<double>() - sequence.behaviour[t]);
      const bool inside = ratio > 1 - band.trust_region.low && ratio < 1 + band.trust_region.high;
      const at::Tensor part = -(inside ? ratio : 0.0) * double{batch.advantages[i][t]} * logp;
      loss += part.item<double>();
      part.backward({}, /*retain_graph=*/true);
    }
  }
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& leaf : leaves) gradients.push_back(leaf.grad());
  return flat(gradients);
}

TEST_CASE("gradient and loss are plain autograd's, tied and untied, at each sequence's temperature") {
  for (const bool tied : {true, false}) {
    CAPTURE(tied);
    const Model model = small_model(tied);
    const Batch batch = random_batch(4, 6, 11);
    double loss = 0;
    const auto right = reference_gradient(model, batch, loss);
    PolicyLearner learner(model, policy_in_float32(), band);
    const PolicySums sums = feed(learner, batch, 4);
    CHECK(relative_distance(learner.gradient(), right) < 1e-5);
    CHECK(sums.loss == doctest::Approx(loss).epsilon(1e-5));
    CHECK(sums.tokens == 4 * 6 + 2);
    CHECK(sums.masked_low + sums.masked_high > 0);
  }
}

TEST_CASE("B15: gradients streamed in any packs and any order are the batch's") {
  const Model model = small_model();
  const Batch batch = random_batch(8, 40, 12);  // more action tokens than go through the head at once
  PolicyLearner whole(model, policy_in_float32(), band);
  const PolicySums right = feed(whole, batch, 8);
  for (const std::size_t pack : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
    CAPTURE(pack);
    for (const Batch& order : {batch, reversed(batch)}) {
      PolicyLearner streamed(model, policy_in_float32(), band);
      const PolicySums sums = feed(streamed, order, pack);
      CHECK(relative_distance(streamed.gradient(), whole.gradient()) < 1e-5);
      CHECK(sums.tokens == right.tokens);
      CHECK(sums.loss == doctest::Approx(right.loss).epsilon(1e-4));
      CHECK(sums.entropy == doctest::Approx(right.entropy).epsilon(1e-5));
      CHECK(sums.ratio == doctest::Approx(right.ratio).epsilon(1e-5));
    }
  }
}

TEST_CASE("B10: observation tokens are context, never targets") {
  const Model model = small_model();
  Batch batch = random_batch(2, 5, 13);
  batch.sequences.resize(1);
  batch.advantages.resize(1);
  Sequence& sequence = batch.sequences[0];
  sequence.tokens.push_back(70);  // a trailing observation is context of nothing
  sequence.mask.push_back(0);
  sequence.behaviour.push_back(0);
  sequence.rewards.push_back(0);
  batch.advantages[0].push_back(0);
  PolicyLearner learner(model, policy_in_float32(), band);
  CHECK(feed(learner, batch, 1).tokens == 5);

  Batch other = batch;
  other.sequences[0].tokens.back() = 99;
  other.sequences[0].behaviour.back() = std::nanf("");  // not read where the mask is 0
  other.advantages[0].back() = std::nanf("");
  PolicyLearner same(model, policy_in_float32(), band);
  CHECK(feed(same, other, 1).tokens == 5);
  CHECK(relative_distance(same.gradient(), learner.gradient()) < 1e-6);

  other = batch;
  other.sequences[0].tokens[0] ^= 1;  // the prompt does matter
  PolicyLearner different(model, policy_in_float32(), band);
  feed(different, other, 1);
  CHECK(relative_distance(different.gradient(), learner.gradient()) > 1e-3);
}

TEST_CASE("a step is AdamW on the clipped mean gradient, tokens outside the band counted") {
  const Model model = small_model();
  const Batch batch = random_batch(4, 6, 15);
  for (const double limit : {1e-3, 1e3}) {
    PolicySettings settings = policy_in_float32();
    settings.max_gradient_norm = limit;
    PolicyLearner learner(model, settings, band);
    const PolicySums sums = feed(learner, batch, 4);
    auto mean = learner.gradient();
    double squares = 0;
    for (float& number : mean) {
      number /= static_cast<float>(sums.tokens);
      squares += double{number} * number;
    }
    const PolicyStep step = learner.step(7);
    REQUIRE(step.weights);
    CHECK(step.weights->version == 7);
    CHECK(step.skipped.empty());
    CHECK(step.sums.tokens == sums.tokens);
    CHECK(step.gradient_norm == doctest::Approx(std::sqrt(squares)).epsilon(1e-5));
    // The first update of AdamW: both corrected moments are the gradient's own.
    const auto before = flat(*model.weights), after = flat(*step.weights);
    const double clip = std::min(1.0, limit / std::sqrt(squares));
    double worst = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double g = clip * mean[i];
      worst = std::max(worst, std::abs(before[i] - 0.01 * g / (std::abs(g) + 1e-8) - after[i]));
    }
    CHECK(worst < 1e-6);
  }
}

TEST_CASE("a tied head stays the embedding in every version") {
  PolicyLearner learner(small_model(), policy_in_float32(), band);
  feed(learner, random_batch(2, 6, 16), 2);
  const PolicyStep step = learner.step(1);
  REQUIRE(step.weights);
  CHECK(step.weights->weights.head.is_same(step.weights->weights.embedding));
  CHECK_FALSE(step.weights->weights.embedding.requires_grad());
}

TEST_CASE("published weights never change, and memory nobody reads is used again") {
  const Model model = small_model();
  const auto loaded = flat(*model.weights);
  PolicyLearner learner(model, policy_in_float32(), band);
  const auto step = [&](Version version) {
    feed(learner, random_batch(2, 6, static_cast<std::uint32_t>(version)), 2);
    return learner.step(version).weights;
  };
  SnapshotPtr first = step(1);
  const auto published = flat(*first);
  const void* memory = first->weights.embedding.const_data_ptr();
  for (Version version = 2; version <= 4; ++version) {
    const SnapshotPtr next = step(version);
    CHECK(next->weights.embedding.const_data_ptr() != memory);
    CHECK(flat(*next) != published);
  }
  CHECK(flat(*first) == published);
  CHECK(flat(*model.weights) == loaded);

  first.reset();
  const SnapshotPtr fifth = step(5), sixth = step(6);  // two of three sets are free; both steps find one
  CHECK((fifth->weights.embedding.const_data_ptr() == memory || sixth->weights.embedding.const_data_ptr() == memory));
}

TEST_CASE("bfloat16 arithmetic points the same way as float32 and leaves master weights float32") {
  const Model model = small_model();
  const Batch batch = random_batch(4, 6, 23);
  PolicySettings settings = policy_in_float32();
  PolicyLearner right(model, settings, everything);  // with a band, rounding could move a token across its edge
  settings.dtype = "bfloat16";
  PolicyLearner learner(model, settings, everything);
  feed(right, batch, 2);
  feed(learner, batch, 2);
  CHECK(relative_distance(learner.gradient(), right.gradient()) < 0.05);
  const SnapshotPtr weights = learner.step(1).weights;
  REQUIRE(weights);
  CHECK((weights->weights.embedding.scalar_type() == at::kFloat));
  // The next pass uses them: from the same weights the same gradient follows.
  Model next = model;
  next.weights = weights;
  PolicyLearner from_next(next, settings, everything);
  feed(learner, batch, 2);
  feed(from_next, batch, 2);
  CHECK(learner.gradient() == from_next.gradient());
}

TEST_CASE("the KL to the start is nothing at the start, in whatever is computed, and something later") {
  const Model model = small_model();
  const Batch batch = random_batch(4, 6, 29);
  PolicySettings settings = policy_in_float32();
  settings.lr = 0.01;
  Recipe held = everything;
  held.loss.kl_weight = 5;
  for (const char* dtype : {"float32", "bfloat16"}) {
    CAPTURE(dtype);
    settings.dtype = dtype;
    PolicyLearner free(model, settings, everything), with_kl(model, settings, held);
    const auto both = {&free, &with_kl};
    for (PolicyLearner* learner : both) feed(*learner, batch, 2);
    CHECK(with_kl.gradient() == free.gradient());
    for (PolicyLearner* learner : both) learner->step(1);
    for (PolicyLearner* learner : both) feed(*learner, batch, 2);
    CHECK(relative_distance(with_kl.gradient(), free.gradient()) > 0.01);
  }
}

TEST_CASE("a sequence that breaks its contract is refused loudly") {
  PolicyLearner learner(small_model(), policy_in_float32(), band);
  Batch batch = random_batch(1, 6, 24);
  batch.sequences[0].mask[0] = 1;
  CHECK_THROWS_AS(feed(learner, batch, 1), std::invalid_argument);
  batch.sequences[0].mask.pop_back();
  CHECK_THROWS_AS(feed(learner, batch, 1), std::invalid_argument);
}

}  // namespace
}  // namespace millrace
