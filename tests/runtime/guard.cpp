#include "runtime/guard.hpp"

#include <doctest/doctest.h>

using namespace millrace;

namespace {

StepReport good(Version version, double reward = 0.5) {
  StepReport report;
  report.policy_version = version;
  report.reward_mean = reward;
  report.spec_oldest = report.spec_newest = 1;
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
    CHECK(guard.last_good() == first - 2);
  }
}

TEST_CASE("rewards speak for the policies that earned them, not for those they have taught") {
  Guard guard({.patience = 3});
  Version version = settle(guard);
  StepReport report = good(version);
  report.lag_max = 4;
  for (; version < 40; ++version) {
    report.policy_version = version;
    REQUIRE(guard.judge(report).empty());
  }
  CHECK(guard.last_good() == 39 - 1 - 4);
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
    bool told = false;
    for (Version version = first; version < first + 20; ++version) {
      StepReport report = good(version, 0.1);
      if (shifted) report.spec_newest = 2;
      if (shifted && version > first) report.spec_oldest = 2;  // the first batch is a mixed one
      told |= !guard.judge(report).empty();
    }
    CHECK(told != shifted);
  }
}

TEST_CASE("a slow fall: what it should go back to is before it, not where it was told") {
  Guard guard({.patience = 3, .max_reward_loss = 0.5});
  const Version first = settle(guard);
  Version version = first;
  std::string said;
  for (double reward = 0.5; said.empty() && version < first + 100; reward -= 0.005) {
    said = guard.judge(good(version++, reward));
  }
  CHECK(said.find("mean reward of ten steps") == 0);
  CHECK(version - first > 50);
  CHECK(guard.last_good() < first + 18);  // a tenth is lost after ten steps, in the mean of ten after fifteen
  CHECK(guard.last_good() >= first);

  // What follows is compared with what it starts from.
  for (int step = 0; step < 50; ++step) CHECK(guard.judge(good(version++, 0.2)).empty());
  CHECK(guard.last_good() == version - 2);
}

TEST_CASE("what it does worse on tasks it is not trained on is told at once; not across a shift") {
  const auto evaluation = [](Version version, double reward, std::uint64_t spec = 1, double kl = 0.1) {
    Evaluation result;
    result.version = version;
    result.tasks = 16;
    result.reward_mean = reward;
    result.spec_version = spec;
    result.kl = kl;
    return result;
  };
  Guard guard({.max_reward_loss = 0.5, .max_kl = 2});
  CHECK(guard.judge(evaluation(10, 0.4)).empty());
  CHECK(guard.judge(evaluation(20, 0.8)).empty());
  CHECK(guard.judge(evaluation(30, 0.5)).empty());
  CHECK(guard.judge(evaluation(40, 0.3)).find("held-out reward is 0.3, below 0.4") == 0);
  CHECK(guard.judge(evaluation(50, 0.1, 2)).empty());
  CHECK(guard.judge(evaluation(60, 0.04, 2)).find("held-out reward") == 0);
  CHECK(guard.judge(evaluation(70, 0.1, 2, 3)).find("KL to the start policy is 3, above 2") == 0);
  Evaluation nothing = evaluation(80, 0, 2);
  nothing.tasks = 0;
  CHECK(guard.judge(nothing).empty());
}
