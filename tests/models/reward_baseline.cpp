#include "models/reward_baseline.hpp"

#include <cmath>

#include <doctest/doctest.h>

using namespace millrace;

namespace {

const Sequence sequence{
    .tokens = {1, 2, 3, 4}, .mask = {0, 1, 0, 1}, .behaviour = {0, -1, 0, -1}, .rewards = {0, 0, 0, 1}};

}  // namespace

TEST_CASE("a group's advantage stands at every action token and at nothing else") {
  RewardBaseline baseline({.kind = "group"});
  const auto advantages = baseline.advantages(sequence, 1, std::vector<double>{1, 0, 0, 1});
  CHECK(advantages[0] == 0);
  CHECK(advantages[1] == doctest::Approx(1).epsilon(1e-5));
  CHECK(advantages[2] == 0);
  CHECK(advantages[3] == advantages[1]);
  baseline.step();  // groups are not rescaled
  CHECK(baseline.advantages(sequence, 1, std::vector<double>{1, 0, 0, 1})[1] == advantages[1]);
}

TEST_CASE("the running mean is not centred, and divided by an RMS that changes between batches only") {
  RewardBaseline baseline({.kind = "running_mean"});
  CHECK(baseline.advantages(sequence, 2, {})[1] == 2);
  CHECK(baseline.advantages(sequence, 3, {})[1] == 1);
  baseline.step();
  const double rms = std::sqrt((4 + 4 + 1 + 1) / 4.0);
  CHECK(baseline.advantages(sequence, 5, {})[1] == doctest::Approx((5 - 2.5) / rms));
}

TEST_CASE("B14: a reward that is no number makes NaN advantages and changes nothing else") {
  for (const char* kind : {"group", "running_mean"}) {
    RewardBaseline spoilt({.kind = kind}), clean({.kind = kind});
    const std::vector<double> group{1, std::nan(""), 0};
    const auto advantages = spoilt.advantages(sequence, std::nan(""), group);
    CHECK(std::isnan(advantages[1]));
    CHECK(advantages[0] == 0);
    for (RewardBaseline* one : {&spoilt, &clean}) {
      one->advantages(sequence, 1, group);
      one->step();
    }
    CHECK(spoilt.advantages(sequence, 0.5, group) == clean.advantages(sequence, 0.5, group));
  }
}

TEST_CASE("B25: the mean and the unit of advantages go on from an image") {
  RewardBaseline straight({.kind = "running_mean"});
  for (const double reward : {1.0, 0.0, 3.0}) straight.advantages(sequence, reward, {});
  straight.step();
  RewardBaseline in_a_batch = straight;
  in_a_batch.advantages(sequence, 7, {});
  const LearnerImagePtr image = in_a_batch.image();  // without what the open batch has brought
  RewardBaseline resumed({.kind = "running_mean"});
  resumed.advantages(sequence, 9, {});
  REQUIRE(resumed.restore(image->tensors()));
  for (const double reward : {2.0, 0.5}) {
    CHECK(straight.advantages(sequence, reward, {}) == resumed.advantages(sequence, reward, {}));
  }
  CHECK_FALSE(resumed.restore({}));
}
