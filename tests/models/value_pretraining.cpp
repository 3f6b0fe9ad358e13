#include "models/value_pretraining.hpp"

#include <cmath>
#include <vector>

#include "tests/models/learner_fixture.hpp"

namespace millrace {
namespace {

using namespace testing;

// Trajectories whose reward can be told from their first token: 65 + something even is worth 1, odd nothing.
Sequences foreseeable(std::size_t count) {
  Sequences all = trajectories(count, 71);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::fill(all[i].rewards.begin(), all[i].rewards.end(), 0.0f);
    all[i].tokens[0] = static_cast<TokenId>(65 + i % 2);
    all[i].rewards.back() = i % 2 == 0 ? 1.0f : 0.0f;
  }
  return all;
}

SequenceSource source_of(const Sequences& sequences, std::size_t& place) {
  return [&]() -> expected<std::optional<Sequence>> {
    if (place == sequences.size()) return std::optional<Sequence>();
    return std::optional(sequences[place++]);
  };
}

TEST_CASE("pre-training raises the explained variance of trajectories it never saw") {
  const Model model = small_model();
  ValueSettings settings = critic_in_float32();
  settings.freeze = "none";
  ValueLearner learner(model, settings, Baseline{});
  const Sequences all = foreseeable(330);
  Sequences apart;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (ValuePretraining::held_out(i)) apart.push_back(all[i]);
  }
  // Held out are the odd ones only; a few even ones beside them give something to tell apart.
  for (std::size_t i = 300; i < 330; i += 2) apart.push_back(all[i]);
  const double before = learner.explained_variance_of(apart);
  CHECK(std::abs(before) < 1e-6);  // the head is zero: one value for all

  ValuePretraining pretraining(learner, 16, 4);
  std::size_t place = 0, index = 0;
  const Sequences trained(all.begin(), all.begin() + 300);
  const auto next = source_of(trained, place);
  int batches = 0;
  while (true) {
    const auto step = pretraining.step(next, index);
    REQUIRE(step);
    if (!*step) break;
    ++batches;
  }
  CHECK(index == 300);
  CHECK(batches == 17);  // 270 of 300 are trained: 16 batches and a rest
  CHECK(learner.explained_variance_of(apart) > 0.5);
}

TEST_CASE("looking at a critic's explained variance changes nothing") {
  const Model model = small_model();
  ValueLearner looked_at(model, critic_in_float32(), Baseline{}), left_alone(model, critic_in_float32(), Baseline{});
  const Sequences sequences = trajectories(4, 72);
  for (int round = 0; round < 2; ++round) {
    looked_at.explained_variance_of(sequences);
    const Valuations seen = feed(looked_at, sequences, 4), right = feed(left_alone, sequences, 4);
    CHECK(at_actions(sequences, seen, &Valuation::advantages) == at_actions(sequences, right, &Valuation::advantages));
    looked_at.step();
    left_alone.step();
  }
}

TEST_CASE("an error of the source ends it") {
  const Model model = small_model();
  ValueLearner learner(model, critic_in_float32(), Baseline{});
  ValuePretraining pretraining(learner, 4, 4);
  std::size_t index = 0;
  const auto step = pretraining.step([]() -> expected<std::optional<Sequence>> { return fail("line 3"); }, index);
  REQUIRE_FALSE(step);
  CHECK(step.error().message == "line 3");
}

}  // namespace
}  // namespace millrace
