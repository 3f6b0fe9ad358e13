// What learners must survive: faults B08, B12 and B14, gradients that are not finite.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/models/learner_fixture.hpp"

namespace millrace {
namespace {

using namespace testing;

TEST_CASE("policy: B08: the mask alone says what is trained, also where a token looks like a pad or an end") {
  const Tokenizer tokenizer = Tokenizer::bytes();
  const Model model = small_model();
  Batch batch;
  batch.sequences.push_back({.tokens = {65, 66, 0, tokenizer.eos(), 5, tokenizer.eos()},
                             .mask = {0, 0, 1, 1, 1, 1},
                             .behaviour = {0, 0, -5, -5, -5, -5},
                             .rewards = {0, 0, 0, 0, 0, 0}});
  batch.advantages.push_back({0, 0, 1, 1, 1, 1});
  PolicyLearner learner(model, policy_in_float32(), everything);
  CHECK(feed(learner, batch, 1).tokens == 4);
  const auto gradient = learner.gradient();  // the embedding comes first: [vocab, hidden]
  const auto row = [&](TokenId token) { return std::span(gradient).subspan(static_cast<std::size_t>(token) * 32, 32); };
  for (const TokenId token : {0, 5, tokenizer.eos()}) {
    double size = 0;
    for (const float number : row(token)) size += std::abs(number);
    CHECK(size > 0.1);
  }
}

TEST_CASE("policy: B14: a sequence with a bad number is left out, the others are not touched") {
  const Model model = small_model();
  const Batch clean = random_batch(3, 6, 14);
  PolicyLearner right(model, policy_in_float32(), band);
  const PolicySums right_sums = feed(right, clean, 3);
  for (const int fault : {0, 1}) {
    Batch batch = random_batch(4, 6, 14);
    auto& bad = fault == 0 ? batch.advantages[3] : batch.sequences[3].behaviour;
    bad.back() = fault == 0 ? std::nanf("") : -INFINITY;
    PolicyLearner learner(model, policy_in_float32(), band);
    CHECK(feed(learner, batch, 4).tokens == right_sums.tokens);
    CHECK(relative_distance(learner.gradient(), right.gradient()) < 1e-5);
  }
}

// A learner that was handed something useless must go on as one that never saw it.
void check_nothing_happened(PolicyLearner& learner, const Model& model, const Recipe& recipe) {
  PolicyLearner fresh(model, policy_in_float32(), recipe);
  for (Version version = 1; version <= 2; ++version) {
    const Batch batch = random_batch(3, 6, 20 + static_cast<std::uint32_t>(version));
    feed(learner, batch, 3);
    feed(fresh, batch, 3);
    const auto weights = learner.step(version).weights, right = fresh.step(version).weights;
    REQUIRE(weights);
    CHECK(relative_distance(flat(*weights), flat(*right)) == 0);
  }
}

TEST_CASE("policy: a non-finite gradient is dropped: weights, moments and step count stay") {
  const Model model = small_model();
  PolicyLearner learner(model, policy_in_float32(), everything);
  Batch batch = random_batch(2, 6, 17);
  for (float& advantage : batch.advantages[0]) advantage = 3e38f;  // finite, but its gradient is not
  feed(learner, batch, 2);
  const PolicyStep step = learner.step(1);
  CHECK_FALSE(step.weights);
  CHECK(step.skipped == "non-finite gradient");
  CHECK(step.sums.tokens == 13);
  check_nothing_happened(learner, model, everything);
}

TEST_CASE("policy: B12: an empty response changes nothing; a batch of them is no step") {
  const Model model = small_model();
  Batch empty = random_batch(2, 6, 18);
  for (Sequence& sequence : empty.sequences) std::fill(sequence.mask.begin(), sequence.mask.end(), std::uint8_t{0});
  PolicyLearner learner(model, policy_in_float32(), band);
  CHECK(feed(learner, empty, 2).tokens == 0);
  const PolicyStep step = learner.step(1);
  CHECK_FALSE(step.weights);
  CHECK(step.skipped == "no action tokens");
  check_nothing_happened(learner, model, band);

  Batch batch = random_batch(2, 6, 19);
  PolicyLearner right(model, policy_in_float32(), band), mixed(model, policy_in_float32(), band);
  feed(right, batch, 2);
  batch.sequences.push_back(empty.sequences[0]);
  batch.advantages.push_back(empty.advantages[0]);
  CHECK(feed(mixed, batch, 3).tokens == 13);
  CHECK(relative_distance(mixed.gradient(), right.gradient()) < 1e-5);
}

// A learner that was handed something useless must go on as one that never saw it.
void check_nothing_happened(ValueLearner& learner, const Model& model) {
  ValueLearner fresh(model, critic_in_float32(), Baseline{});
  for (std::uint32_t seed = 60; seed < 62; ++seed) {
    const Sequences sequences = trajectories(3, seed);
    const Valuations valuations = feed(learner, sequences, 3), right = feed(fresh, sequences, 3);
    CHECK(at_actions(sequences, valuations, &Valuation::advantages) ==
          at_actions(sequences, right, &Valuation::advantages));
    learner.step();
    fresh.step();
  }
}

TEST_CASE("critic: B12: sequences without actions change nothing; a batch of them is no step") {
  const Model model = small_model();
  ValueLearner learner(model, critic_in_float32(), Baseline{});
  Sequences empty = trajectories(2, 34);
  for (Sequence& sequence : empty) std::fill(sequence.mask.begin(), sequence.mask.end(), std::uint8_t{0});
  const Valuations valuations = feed(learner, empty, 2);
  REQUIRE(valuations.size() == 2);
  CHECK(valuations[0].advantages == std::vector<float>(empty[0].mask.size(), 0.0f));
  CHECK(learner.step().skipped);
  check_nothing_happened(learner, model);
}

TEST_CASE("critic: B14: a NaN reward shows as NaN advantages of that trajectory and touches nothing else") {
  const Model model = small_model();
  const Sequences clean = trajectories(3, 35);
  Sequences spoilt = clean;
  spoilt.insert(spoilt.begin() + 1, trajectories(1, 36).front());
  spoilt[1].rewards.back() = std::nanf("");
  ValueLearner right(model, critic_in_float32(), Baseline{}), learner(model, critic_in_float32(), Baseline{});
  const Valuations expected = feed(right, clean, 3);
  Valuations valuations = feed(learner, spoilt, 4);
  REQUIRE(valuations.size() == 4);
  for (std::size_t t = 0; t < spoilt[1].mask.size(); ++t) {
    CHECK(std::isnan(valuations[1].advantages[t]) == (spoilt[1].mask[t] == 1));
  }
  valuations.erase(valuations.begin() + 1);
  CHECK(at_actions(clean, valuations, &Valuation::advantages) == at_actions(clean, expected, &Valuation::advantages));
  const ValueStep step = learner.step(), expected_step = right.step();
  CHECK(step.loss == doctest::Approx(expected_step.loss));
  CHECK(step.gradient_norm == doctest::Approx(expected_step.gradient_norm));
  CHECK(step.advantage_rms == doctest::Approx(expected_step.advantage_rms));
}

TEST_CASE("critic: a non-finite gradient is dropped: weights, moments, RMS and step count stay") {
  const Model model = small_model();
  ValueLearner learner(model, critic_in_float32(), Baseline{});
  Sequences sequences = trajectories(2, 37);
  for (float& reward : sequences[0].rewards) reward = 3e37f;
  feed(learner, sequences, 2);
  const ValueStep step = learner.step();
  CHECK(step.skipped);
  CHECK(step.advantage_rms == 1);
  check_nothing_happened(learner, model);
}

}  // namespace
}  // namespace millrace
