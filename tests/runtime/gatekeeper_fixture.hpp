#pragma once
// A gatekeeper on an empty ledger, and trajectories to bring to it.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "runtime/gatekeeper.hpp"
#include "tests/temporary_directory.hpp"

namespace millrace::testing {

// One prompt token, then one action token for each of these versions.
inline Trajectory trajectory(TrajectoryId id, const std::vector<Version>& action_versions) {
  Trajectory result;
  result.id = id;
  result.environment = "test";
  result.sequence.tokens = {1};
  result.sequence.mask = {0};
  result.sequence.behaviour = {0};
  result.sequence.rewards = {0};
  result.versions = {0};
  for (const Version version : action_versions) {
    result.sequence.tokens.push_back(2);
    result.sequence.mask.push_back(1);
    result.sequence.behaviour.push_back(-1);
    result.sequence.rewards.push_back(0);
    result.versions.push_back(version);
  }
  result.ending = Ending::terminated;
  result.score.spec = "test";
  return result;
}

inline void check_account(const Gatekeeper& gate) {
  const LedgerCounts counts = gate.ledger().counts();
  CHECK(counts.accepted == counts.trained + counts.queued + counts.rejected);
}

struct World {
  TemporaryDirectory directory;
  Metrics metrics;
  Gatekeeper gate;
  explicit World(const Settings& settings) : gate(settings, 0, std::move(*Ledger::open(directory.path())), metrics) {}

  nlohmann::json row(TrajectoryId id) const { return *gate.ledger().find(id); }
  std::string outcome(TrajectoryId id) const { return row(id)["outcome"]; }
};

}  // namespace millrace::testing
