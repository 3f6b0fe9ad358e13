#pragma once
// Keeps as many sessions alive as there are permits for: whenever the newest one has its first permit, the next one
// comes in. Ends those that are late, leaves those that hang, replaces those that die.
#include <map>
#include <mutex>

#include <caf/actor_clock.hpp>

#include "actors/protocol/interfaces.hpp"
#include "runtime/environment.hpp"

namespace millrace {

// What every session of this service needs to know and whom to ask.
struct SessionSetup {
  PermitsActor permits;  // in training the gatekeeper
  GeneratorActor generator;
  ScorerActor scorer;
  std::shared_ptr<const Tokenizer> tokenizer;
  EnvironmentFactory make_environment;
  Settings settings;
  Metrics* metrics = nullptr;
};

// What its host sees of a session without asking, for it may hang: which one it is at, and since when.
class SessionWatch {
 public:
  using Time = caf::actor_clock::time_point;
  struct Running {
    TrajectoryId id = 0;  // 0: none
    Time since;
  };
  void begins(TrajectoryId id, Time now) { set({id, now}); }
  void ends() { set({}); }
  Running look() const {
    const std::lock_guard lock(mutex_);
    return running_;
  }

 private:
  void set(const Running& running) {
    const std::lock_guard lock(mutex_);
    running_ = running;
  }
  mutable std::mutex mutex_;
  Running running_;
};

struct SessionHostState {
  struct Seat {
    SessionActor session;  // kept alive also while nobody owes it an answer
    std::shared_ptr<const SessionWatch> watch;
  };
  std::shared_ptr<const SessionSetup> setup;
  std::map<caf::actor_id, Seat> seats;
  caf::actor_id newest = 0;  // without its first permit

  ~SessionHostState();  // no session outlives its host, whatever that dies of
  static const char* name;
};

SessionHostActor::behavior_type session_host(SessionHostActor::stateful_pointer<SessionHostState> self,
                                             std::shared_ptr<const SessionSetup> setup);

}  // namespace millrace
