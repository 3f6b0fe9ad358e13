#pragma once
// Learning from the service's own traffic: the actor around runtime/live/interactions.hpp. Answers are remembered when
// they are served; rewarded ones ask the gatekeeper for a permit, and become trajectories when they get it.
#include <memory>

#include "actors/protocol/interfaces.hpp"
#include "runtime/live/interactions.hpp"

namespace millrace {

struct LiveState {
  std::shared_ptr<Interactions> interactions;
  bool asking = false;  // a permit has been asked for
  static const char* name;
};

LiveActor::behavior_type live(LiveActor::stateful_pointer<LiveState> self, std::shared_ptr<Interactions> interactions,
                              std::shared_ptr<const Tokenizer> tokenizer, GatekeeperActor gatekeeper, int batch,
                              Metrics* metrics);

}  // namespace millrace
