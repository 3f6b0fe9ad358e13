// Activation checkpointing: less memory, the same numbers but for rounding (few rows are multiplied in another way
// where nothing is recorded).
#include "tests/models/learner_fixture.hpp"

namespace millrace {
namespace {

using namespace testing;

TEST_CASE("a policy that computes activations once more learns the same") {
  for (const char* dtype : {"float32", "bfloat16"}) {
    PolicySettings settings = policy_in_float32();
    settings.dtype = dtype;
    PolicyLearner keeps(small_model(), settings, band);
    settings.recompute_activations = true;
    PolicyLearner recomputes(small_model(), settings, band);
    for (Version version = 1; version <= 2; ++version) {
      const Batch batch = random_batch(5, 6, static_cast<std::uint32_t>(version));
      feed(keeps, batch, 3);
      feed(recomputes, batch, 3);
      CHECK(relative_distance(recomputes.gradient(), keeps.gradient()) < (settings.dtype == "float32" ? 1e-5 : 0.03));
      keeps.step(version);
      recomputes.step(version);
    }
  }
}

TEST_CASE("a critic that computes activations once more learns the same, whatever of it is frozen") {
  for (const char* freeze : {"none", "attention", "all_but_head"}) {
    ValueSettings settings = critic_in_float32(3);
    settings.freeze = freeze;
    ValueLearner keeps(small_model(), settings, Baseline{});
    settings.recompute_activations = true;
    ValueLearner recomputes(small_model(), settings, Baseline{});
    for (std::uint32_t i = 0; i < 3; ++i) {
      feed(keeps, trajectories(5, i), 2);
      feed(recomputes, trajectories(5, i), 2);
      CHECK(relative_distance(recomputes.gradient(), keeps.gradient()) < 1e-3);
      CHECK(recomputes.step().loss == doctest::Approx(keeps.step().loss).epsilon(1e-3));
    }
  }
}

}  // namespace
}  // namespace millrace
