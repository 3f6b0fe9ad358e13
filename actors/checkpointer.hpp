#pragma once
// Writes a checkpoint when the gatekeeper says so: both learners' images of the same batch, the reward spec in force,
// and where everything stands. It writes on a thread of its own, straight from the learners' memory.
#include "actors/protocol/interfaces.hpp"

namespace millrace {

struct CheckpointerSetup {
  GatekeeperActor gatekeeper;
  ValueLearnerActor value;
  PolicyLearnerActor policy;
  ScorerActor scorer;
  CheckpointStore store;
  std::string model;  // its name, for whoever reads a manifest
  std::uint64_t incarnation = 0;
  int threads = 1;  // of a learner: with another number of them sums come out differently
  Metrics* metrics = nullptr;
};

struct CheckpointerState {
  LearnerPart value, policy;  // of the checkpoint that is being made
  static const char* name;
};

CheckpointerActor::behavior_type checkpointer(CheckpointerActor::stateful_pointer<CheckpointerState> self,
                                              std::shared_ptr<const CheckpointerSetup> setup);

}  // namespace millrace
