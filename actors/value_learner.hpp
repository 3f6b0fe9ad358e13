#pragma once
// The actor around models/value_learner.hpp. It pulls trajectories from the gatekeeper with credits, sends each on with
// its advantages at once, and updates the critic when the batch is complete.
#include <memory>

#include "actors/protocol/interfaces.hpp"
#include "models/value_learner.hpp"
#include "runtime/activity.hpp"

namespace millrace {

struct LearnerSetup {
  std::shared_ptr<const Model> model;
  Settings settings;
  int threads = 1;
  Metrics* metrics = nullptr;
  Activity* activity = nullptr;
};

struct ValueLearnerState {
  std::unique_ptr<ValueLearner> learner;
  int warmup_left = 0;        // batches that train the critic only
  std::uint64_t version = 0;  // batches it has learned from
  std::uint64_t batch_tokens = 0;
  static const char* name;
};

ValueLearnerActor::behavior_type value_learner(ValueLearnerActor::stateful_pointer<ValueLearnerState> self,
                                               LearnerSetup setup, GatekeeperActor gatekeeper,
                                               PolicyLearnerActor policy, ObserverActor observer);

}  // namespace millrace
