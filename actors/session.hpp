#pragma once
// Sessions, one after another. Each asks the generator for a turn, hands the turn to its environment, and so on until
// the end; then it has the answer scored and submits the trajectory, which asks for the next permit. Whatever goes
// wrong is submitted, too, with its reason. The actor stays for the next session: an actor's birth and death cost as
// much as the rest of a short one.
#include <chrono>
#include <memory>
#include <optional>

#include "actors/protocol/interfaces.hpp"
#include "actors/session_host.hpp"
#include "runtime/episode.hpp"

namespace millrace {

struct LiveSession {
  TrajectoryId id = 0;
  std::unique_ptr<Environment> environment;
  Episode episode;
  Sampling sampling;
  StageSeconds seconds = {};
  double created = 0;
  bool scoring = false;  // the last turn is over
  std::chrono::steady_clock::time_point stage_started = std::chrono::steady_clock::now();

  double lap();  // seconds since the last lap
};

struct SessionState {
  std::shared_ptr<const SessionSetup> setup;
  std::shared_ptr<SessionWatch> watch;
  std::optional<LiveSession> live;
  static const char* name;
};

SessionActor::behavior_type session(SessionActor::stateful_pointer<SessionState> self,
                                    std::shared_ptr<const SessionSetup> setup, std::shared_ptr<SessionWatch> watch);

}  // namespace millrace
