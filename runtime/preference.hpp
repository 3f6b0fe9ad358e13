#pragma once
// What is rewarded, over time: every reward spec that was in force, with its version, who put it there, when and why.
// Kept as one JSON object a line, so that versions go on growing and a shift outlives a restart.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/reward.hpp"

namespace millrace {

// What a shift does to trajectories that are on their way and not yet with the learner.
enum class InFlight {
  keep,     // those that have a score keep it; a session still running is scored under the new spec
  finish,   // sessions that had begun are scored under the old spec, too
  rescore,  // those that wait for the learner are scored again: everything from now on is of the new spec
  expire    // those that wait, and sessions that had begun, are dropped as expired
};
const char* name_of(InFlight choice);
expected<InFlight> in_flight_of(const std::string& name);

using SpecPtr = std::shared_ptr<const RewardSpec>;

struct SpecEntry {
  std::uint64_t version = 0;
  SpecPtr spec;
  double since = 0;  // Unix seconds
  std::string who;   // "config", or who sent the change
  std::string why;
  InFlight in_flight = InFlight::keep;
};

nlohmann::json to_json(const SpecEntry& entry);

class Preference {
 public:
  // In memory only.
  explicit Preference(SpecPtr configured);
  // Goes on with what the file says was in force, unless the config names another spec than it did then; makes the file
  // where there is none. Errors: unreadable, or not what was written.
  static expected<Preference> open(const std::string& file, SpecPtr configured, double now);

  // Puts a spec in force as the next version; on disk on return, or nothing has changed.
  expected<void> put(SpecPtr spec, const std::string& who, const std::string& why, InFlight in_flight, double now);

  const SpecEntry& current() const { return history_.back(); }
  const std::vector<SpecEntry>& history() const { return history_; }  // oldest first
  // The entry that scores an answer whose session began at this time (Unix seconds; 0 = now).
  const SpecEntry& entry_for(double begun) const;
  const SpecEntry* find(std::uint64_t version) const;

 private:
  Preference() = default;
  std::string file_;  // empty = in memory
  std::vector<SpecEntry> history_;
};

// A step of the way from one spec to another: the parts of both, weighted 1 - share and share.
expected<RewardSpec> blend(const RewardSpec& from, const RewardSpec& to, double share);

}  // namespace millrace
