#include "runtime/guard.hpp"

#include <doctest/doctest.h>

using namespace millrace;

namespace {

StepReport good(Version version, double reward = 0.5) {
  StepReport report;
  report.policy_version = version;
  report.reward_mean = reward;
  report.entropy = 2;
  report.effective_sample_size = 0.9;
  report.policy_gradient_norm = 1;
  return report;
}

// Feeds good steps, so that everything has something to be compared with; returns the next version.
Version settle(Guard& guard) {
  Version version = 1;
  for (; version <= 20; ++version) REQUIRE(guard.judge(good(version)).empty());
  return version;
}

}  // namespace

TEST_CASE("each kind of collapse is told, once it has lasted") {
  struct Case {
    const char* words;
    void (*spoil)(StepReport&);
  };
  const Case cases[] = {{"entropy", [](StepReport& r) { r.entropy = 0.001; }},
                        {"effective sample size", [](StepReport& r) { r.effective_sample_size = 0.01; }},
                        {"masked share", [](StepReport& r) { r.masked_share_high = 0.95; }},
                        {"gradient norm", [](StepReport& r) { r.policy_gradient_norm = 1000; }}};
  for (const Case& one : cases) {
    CAPTURE(one.words);
    Guard guard({.patience = 3});
    const Version first = settle(guard);
    for (Version version = first; version < first + 3; ++version) {
      StepReport bad = good(version);
      one.spoil(bad);
      const std::string said = guard.judge(bad);
      CHECK(said.empty() == (version < first + 2));
      if (!said.empty()) CHECK(said.find(one.words) == 0);
    }
    CHECK(guard.last_good() == first - 1);
  }
}

TEST_CASE("a bad step now and then is no collapse") {
  Guard guard({.patience = 3});
  const Version first = settle(guard);
  for (Version version = first; version < first + 30; ++version) {
    StepReport report = good(version);
    if (version % 3 != 0) report.entropy = 0;
    CHECK(guard.judge(report).empty());
  }
}

TEST_CASE("a reward that falls far below its best is told; after a shift it starts anew") {
  for (const bool shifted : {false, true}) {
    Guard guard({.patience = 3, .max_reward_loss = 0.5});
    const Version first = settle(guard);
    if (shifted) guard.forget_rewards();
    bool told = false;
    for (Version version = first; version < first + 20; ++version) told |= !guard.judge(good(version, 0.1)).empty();
    CHECK(told != shifted);
  }
}
