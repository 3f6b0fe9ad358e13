#pragma once
// Learning from the service's own traffic: the actor around runtime/live/interactions.hpp. Answers are remembered when
// they are served; rewarded ones ask the gatekeeper for a permit, and become trajectories when they get it.
#include <memory>
#include <optional>

#include "actors/protocol/interfaces.hpp"
#include "runtime/activity.hpp"
#include "runtime/live/canary.hpp"
#include "runtime/live/interactions.hpp"

namespace millrace {

struct LiveSetup {
  std::shared_ptr<Interactions> interactions;
  std::shared_ptr<const Tokenizer> tokenizer;
  GatekeeperActor gatekeeper;
  GeneratorActor generator;
  Settings settings;
  Metrics* metrics = nullptr;
  const Activity* activity = nullptr;
};

struct LiveState {
  std::shared_ptr<Interactions> interactions;
  std::optional<Canary> canary;
  bool going_back = false;            // from a bad canary: ratings say nothing new of it
  std::int64_t asking = 0;            // permits that have been asked for and not used
  std::int64_t batch = 1;             // ... at most
  std::vector<TrajectoryId> permits;  // of them, those that have come
  static const char* name;
};

LiveActor::behavior_type live(LiveActor::stateful_pointer<LiveState> self, std::shared_ptr<const LiveSetup> setup);

}  // namespace millrace
