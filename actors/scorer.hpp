#pragma once
// Holds what is rewarded. One message, one spec: an answer is scored as a whole under the spec that its score names,
// and a shift takes place between two scores. Where a spec asks remote scorers, the answer waits for them and nobody
// else does.
#include <map>
#include <optional>

#include "actors/protocol/interfaces.hpp"
#include "runtime/event_hub.hpp"
#include "runtime/preference.hpp"
#include "runtime/rewards/asker.hpp"

namespace millrace {

struct ScorerSetup {
  std::string directory;  // of named specs
  Metrics* metrics = nullptr;
  GatekeeperActor gatekeeper;  // told of each shift, for what is in flight; may be none
  EventHub* events = nullptr;  // may be none
  Asker* asker = nullptr;
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

// An answer that remote scorers are being asked about.
struct OpenScore {
  ScoreRequest request;
  std::uint64_t spec_version = 0;
  caf::typed_response_promise<ScoreReply> promise;
};

struct ScorerState {
  std::optional<Preference> preference;
  std::optional<SpecPlan> plan;
  std::uint64_t plans = 0;
  std::map<std::uint64_t, OpenScore> open;
  std::uint64_t next_open = 1;

  ~ScorerState() {  // nobody else can answer
    for (auto& [number, score] : open) score.promise.deliver(ScoreReply(tl::unexpect, Error{"the scorer died"}));
  }
  // The spec that a change asks for, or what is wrong with it; nothing has changed yet.
  expected<SpecPtr> resolve(const SpecChange& change, const std::string& directory) const;
  SpecInfo info() const;
  static const char* name;
};

ScorerActor::behavior_type scorer(ScorerActor::stateful_pointer<ScorerState> self, Preference preference,
                                  ScorerSetup setup);

}  // namespace millrace
