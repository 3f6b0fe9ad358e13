#include "runtime/trajectory.hpp"

#include <algorithm>

namespace millrace {

const char* name_of(Ending ending) {
  switch (ending) {
    case Ending::terminated: return "terminated";
    case Ending::truncated: return "truncated";
    case Ending::failed: return "failed";
  }
  return "unknown";
}

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::queued: return "queued";
    case Outcome::trained: return "trained";
    case Outcome::stale: return "stale";
    case Outcome::expired: return "expired";
    case Outcome::env_failed: return "env_failed";
    case Outcome::score_failed: return "score_failed";
    case Outcome::invalid: return "invalid";
    case Outcome::group_dropped: return "group_dropped";
    case Outcome::skipped: return "skipped";
    case Outcome::rolled_back: return "rolled_back";
    case Outcome::aborted: return "aborted";
  }
  return "unknown";
}

Sequence Trajectory::scored_sequence() const {
  Sequence scored = sequence;
  scored.reward_version = score.spec_version;
  return scored;
}

std::size_t Trajectory::action_tokens() const {
  return static_cast<std::size_t>(std::count(sequence.mask.begin(), sequence.mask.end(), std::uint8_t{1}));
}

Version Trajectory::oldest_version() const {
  Version oldest = 0;
  bool found = false;
  for (std::size_t t = 0; t < versions.size(); ++t) {
    if (!sequence.mask[t]) continue;
    oldest = found ? std::min(oldest, versions[t]) : versions[t];
    found = true;
  }
  return oldest;
}

Version Trajectory::newest_version() const {
  Version newest = 0;
  for (std::size_t t = 0; t < versions.size(); ++t) {
    if (sequence.mask[t]) newest = std::max(newest, versions[t]);
  }
  return newest;
}

}  // namespace millrace
