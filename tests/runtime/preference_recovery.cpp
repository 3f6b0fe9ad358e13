#include "runtime/preference_recovery.hpp"

#include <doctest/doctest.h>

using millrace::PreferenceRecovery;

namespace {

void give(PreferenceRecovery& recovery, int count, double reward, std::uint64_t version, double now = 0) {
  for (int i = 0; i < count; ++i) recovery.reward(reward, version, now);
}

}  // namespace

TEST_CASE("recovered when the newest rewards' mean is back at 0.9 of its level") {
  PreferenceRecovery recovery(4);
  give(recovery, 4, 0.8, 1);
  recovery.policy_step();
  CHECK(recovery.steps() == 0);  // no shift, nothing to recover from
  recovery.shift(2, 100);
  CHECK(recovery.recovering());

  give(recovery, 10, 5.0, 1, 101);  // late scores of the old spec say nothing about the new one
  CHECK(recovery.recovering());
  recovery.policy_step();
  give(recovery, 3, 0.9, 2, 102);  // good ones, but the window is not full
  CHECK(recovery.recovering());
  give(recovery, 1, 0.0, 2, 103);  // mean 0.675 of 0.72
  recovery.policy_step();
  CHECK(recovery.recovering());
  give(recovery, 1, 0.1, 2, 104);
  recovery.policy_step();
  give(recovery, 4, 0.72, 2, 110);  // exactly 0.9 of 0.8
  CHECK_FALSE(recovery.recovering());
  CHECK(recovery.steps() == 3);
  CHECK(recovery.seconds() == doctest::Approx(10));

  recovery.policy_step();
  give(recovery, 4, 0.0, 2, 200);  // what comes later is another matter
  CHECK(recovery.steps() == 3);
  CHECK(recovery.seconds() == doctest::Approx(10));
}

TEST_CASE("a second shift measures from itself") {
  PreferenceRecovery recovery(2);
  give(recovery, 2, 1.0, 1);
  recovery.shift(2, 10);
  recovery.policy_step();
  give(recovery, 2, 0.2, 2, 20);
  recovery.shift(3, 30);
  CHECK(recovery.steps() == 0);
  give(recovery, 2, 0.19, 3, 35);
  CHECK_FALSE(recovery.recovering());
  CHECK(recovery.seconds() == doctest::Approx(5));
}

TEST_CASE("negative levels count as well, and a shift before any reward has nothing to come back to") {
  PreferenceRecovery recovery(2);
  recovery.shift(2, 0);
  CHECK_FALSE(recovery.recovering());
  give(recovery, 2, -1.0, 2);
  recovery.shift(3, 0);
  give(recovery, 2, -1.2, 3);
  CHECK(recovery.recovering());
  give(recovery, 2, -1.1, 3);  // a tenth below
  CHECK_FALSE(recovery.recovering());
}
