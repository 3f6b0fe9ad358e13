#pragma once
// Ledgers in a temporary folder, and what is written to them.
#include <utility>

#include <doctest/doctest.h>

#include "runtime/ledger.hpp"
#include "tests/temporary_directory.hpp"

namespace millrace::testing {

inline Ledger open_ledger(const TemporaryDirectory& folder) {
  auto ledger = Ledger::open(folder.path());
  REQUIRE_MESSAGE(ledger, ledger.error().message);
  return std::move(*ledger);
}

// Two prompt tokens and three actions, sampled by versions 4, 4 and 6.
inline Trajectory trajectory(TrajectoryId id) {
  Trajectory t;
  t.id = id;
  t.environment = "writing";
  t.task = "Say hello";
  t.answer = "Hello,\nworld";
  t.sequence.tokens = {11, 12, 13, 14, 15};
  t.sequence.mask = {0, 0, 1, 1, 1};
  t.sequence.behaviour = {0, 0, -0.5f, -1.25f, -2.0f};
  t.sequence.rewards = {0, 0, 0, 0, 0.75f};
  t.versions = {0, 0, 4, 4, 6};
  t.turns = 1;
  t.ending = Ending::terminated;
  t.score = {0.75, {{"style", 0.8, 1.0}, {"repetition", 0.1, -0.5}}, "chuunibyou", 3};
  t.finished_at = 6;
  t.created = 1700000000.25;
  t.seconds.generate = 1.5;
  return t;
}

inline void check_counts(const Ledger& ledger, LedgerCounts right) {
  const LedgerCounts counts = ledger.counts();
  CHECK(counts.accepted == right.accepted);
  CHECK(counts.trained == right.trained);
  CHECK(counts.queued == right.queued);
  CHECK(counts.rejected == right.rejected);
}

}  // namespace millrace::testing
