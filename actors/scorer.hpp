#pragma once
// Holds what is rewarded. One message, one spec: an answer is scored as a whole under the spec that its score names,
// and a shift takes place between two scores.
#include <optional>

#include "actors/protocol/interfaces.hpp"
#include "runtime/event_hub.hpp"
#include "runtime/preference.hpp"

namespace millrace {

struct ScorerSetup {
  std::string directory;  // of named specs
  Metrics* metrics = nullptr;
  GatekeeperActor gatekeeper;  // told of each shift, for what is in flight; may be none
  EventHub* events = nullptr;  // may be none
};

// A change that takes effect later, or bit by bit.
struct SpecPlan {
  std::uint64_t number = 0;  // a timer of an older plan finds another number here
  SpecChange change;
  SpecPtr from;
  SpecPtr to;
  int stage = 0;       // stages done
  int stages = 1;      // 1: at once
  double next_at = 0;  // Unix seconds
};

struct ScorerState {
  std::optional<Preference> preference;
  std::optional<SpecPlan> plan;
  std::uint64_t plans = 0;

  ScoreReply score(const ScoreRequest& request) const;
  // The spec that a change asks for, or what is wrong with it; nothing has changed yet.
  expected<SpecPtr> resolve(const SpecChange& change, const std::string& directory) const;
  SpecInfo info() const;
  static const char* name;
};

ScorerActor::behavior_type scorer(ScorerActor::stateful_pointer<ScorerState> self, Preference preference,
                                  ScorerSetup setup);

}  // namespace millrace
