#pragma once
// Starts again what has died, at a bounded rate, behind addresses that stay the same. The learners are one role: when
// one of them dies both go back to the newest checkpoint, and what they had learned since is queued again. The
// gatekeeper is not started again: it owns the ledger, and without it the service ends.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include "actors/protocol/interfaces.hpp"
#include "actors/relay.hpp"
#include "runtime/activity.hpp"
#include "runtime/restart_budget.hpp"

namespace millrace {

// Something that is started, and started again: one or several actors, each behind a place of its own.
struct Role {
  std::vector<std::string> names;  // of the actors, label of actor_restarts_total
  std::vector<Relayed> places;
  // Spawns the actors. The version matters to the learners only: the number under which their policy goes on.
  std::function<std::vector<caf::actor>(Version version)> spawn;
  std::function<void(const std::vector<caf::actor>& actors)> begin;  // once they stand behind their places
};

struct SupervisorSetup {
  std::vector<Role> roles;  // in the order in which they are stopped; the learners (value, policy) last
  GatekeeperActor gatekeeper;
  CheckpointStore store;
  Settings settings;
  Metrics* metrics = nullptr;
  Activity* activity = nullptr;
  std::function<void(const std::string&)> on_failure;  // something died that cannot be started again
};

struct SupervisorState {
  struct Supervised {
    std::vector<caf::actor> actors;
    std::size_t alive = 0;
    RestartBudget budget;
    double delay = 0;      // seconds until it is started again
    bool missing = false;  // it has died and has not begun again
  };
  std::vector<Supervised> roles;  // as in the setup
  static const char* name;
};

using SupervisorSelf = caf::stateful_actor<SupervisorState>*;

// `standing`: the actors of each role, already behind their places. start_atom lets all begin. Told to exit, it ends
// everything it supervises.
caf::behavior supervisor(SupervisorSelf self, std::shared_ptr<const SupervisorSetup> setup,
                         const std::vector<std::vector<caf::actor>>& standing);

}  // namespace millrace
