#pragma once
// Says what a trajectory is compared with. It pulls trajectories from the gatekeeper with credits and sends each on
// with its advantages at once. With a value model (models/value_learner.hpp) it updates that when the batch is
// complete; other baselines (models/reward_baseline.hpp) have nothing to learn.
#include <memory>

#include "actors/latest_weights.hpp"
#include "actors/protocol/interfaces.hpp"
#include "models/collective.hpp"
#include "models/reward_baseline.hpp"
#include "models/value_learner.hpp"
#include "runtime/activity.hpp"
#include "runtime/pretrained_value.hpp"

namespace millrace {

struct LearnerSetup {
  std::shared_ptr<const Model> model;
  std::shared_ptr<LatestWeights> latest;
  Settings settings;
  int threads = 1;
  Metrics* metrics = nullptr;
  Activity* activity = nullptr;
  std::shared_ptr<const PretrainedValue> pretrained;  // where the critic starts; null: from the policy
  // Those who learn with them in other services; null: nobody. Waiting for them is no work.
  std::shared_ptr<Collective> value_replicas, policy_replicas;
};

struct ValueLearnerState {
  std::unique_ptr<ValueLearner> learner;     // where the recipe's baseline is a value model,
  std::unique_ptr<RewardBaseline> baseline;  // and where it is not
  int warmup_left = 0;                       // batches that train the critic only
  std::uint64_t version = 0;                 // batches it has learned from
  std::uint64_t batch_tokens = 0;
  static const char* name;
};

ValueLearnerActor::behavior_type value_learner(ValueLearnerActor::stateful_pointer<ValueLearnerState> self,
                                               LearnerSetup setup, GatekeeperActor gatekeeper,
                                               PolicyLearnerActor policy, ObserverActor observer);

}  // namespace millrace
