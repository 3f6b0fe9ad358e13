#pragma once
// The actor around models/policy_learner.hpp: gradients on arrival, a step and a new published version when the batch
// is complete.
#include <memory>
#include <optional>
#include <vector>

#include "actors/protocol/interfaces.hpp"
#include "actors/value_learner.hpp"
#include "models/mini_batches.hpp"
#include "models/policy_learner.hpp"

namespace millrace {

struct PolicyLearnerState {
  std::unique_ptr<PolicyLearner> learner;
  std::optional<MiniBatches> mini_batches;  // around the learner
  Version version = 0;
  std::vector<ValuedTrajectory> batch;  // of the open step, with their seconds
  std::uint64_t batch_tokens = 0;       // prompts and observations included
  static const char* name;
};

PolicyLearnerActor::behavior_type policy_learner(PolicyLearnerActor::stateful_pointer<PolicyLearnerState> self,
                                                 LearnerSetup setup, GatekeeperActor gatekeeper,
                                                 GeneratorActor generator, ObserverActor observer);

}  // namespace millrace
