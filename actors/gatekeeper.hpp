#pragma once
// The actor around runtime/gatekeeper.hpp: whoever asks for a permit or for trajectories waits here until there are
// any.
#include <deque>

#include "actors/protocol/interfaces.hpp"

namespace millrace {

struct GatekeeperState {
  struct Wanted {  // a learner's credit that has not been used yet
    caf::typed_response_promise<Taken> promise;
    int max = 0;
  };

  std::unique_ptr<Gatekeeper> gate;
  std::deque<caf::typed_response_promise<TrajectoryId>> waiting_sessions;
  std::deque<Wanted> waiting_learners;

  ~GatekeeperState() {
    if (gate) gate->close();
  }
  void serve();  // answers all who can be answered now
  static const char* name;
};

GatekeeperActor::behavior_type gatekeeper(GatekeeperActor::stateful_pointer<GatekeeperState> self,
                                          std::shared_ptr<Ledger> ledger, Settings settings, Metrics* metrics);

}  // namespace millrace
