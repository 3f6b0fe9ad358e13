#pragma once
// Keeps as many sessions alive as the gate permits: a permit, a session; a session that dies gives its permit back.
#include <map>
#include <vector>

#include <caf/actor_clock.hpp>
#include <caf/send.hpp>

#include "actors/protocol/interfaces.hpp"
#include "runtime/environment.hpp"

namespace millrace {

// What every session of this service needs to know and whom to ask.
struct SessionSetup {
  GatekeeperActor gatekeeper;
  SubmissionsActor submissions;  // who takes the trajectories; in training the gatekeeper
  GeneratorActor generator;
  ScorerActor scorer;
  std::shared_ptr<const Tokenizer> tokenizer;
  EnvironmentFactory make_environment;
  Settings settings;
  Metrics* metrics = nullptr;
};

struct SessionHostState {
  struct Live {
    SessionActor session;  // kept alive also while nobody owes it an answer
    TrajectoryId id = 0;
    caf::actor_clock::time_point since;
  };
  std::map<caf::actor_id, Live> live;
  std::vector<SessionActor> resting;  // between two sessions

  ~SessionHostState() {  // no session outlives its host, whatever that dies of
    for (const auto& [actor, of] : live) caf::anon_send_exit(of.session, caf::exit_reason::kill);
    for (const SessionActor& session : resting) caf::anon_send_exit(session, caf::exit_reason::kill);
  }
  static const char* name;
};

SessionHostActor::behavior_type session_host(SessionHostActor::stateful_pointer<SessionHostState> self,
                                             std::shared_ptr<const SessionSetup> setup);

}  // namespace millrace
