#pragma once
// Lets the policy write on a frozen set of tasks that it is not trained on, and compares the answers with what the
// policy at the start would have made of them. Its sessions are those of training, but for who takes their
// trajectories.
#include <map>
#include <optional>

#include "actors/protocol/interfaces.hpp"
#include "actors/session_host.hpp"
#include "models/token_scorer.hpp"

namespace millrace {

struct EvaluatorState {
  std::optional<TokenScorer> start_policy;
  std::optional<caf::typed_response_promise<Evaluation>> asked;
  Version version = 0;
  std::map<caf::actor_id, SessionActor> live;
  std::vector<Trajectory> finished;
  int failed = 0;
  static const char* name;
};

// `sessions`: as the session host has it. Its gatekeeper is not asked for anything.
EvaluatorActor::behavior_type evaluator(EvaluatorActor::stateful_pointer<EvaluatorState> self,
                                        std::shared_ptr<const Model> start, SessionSetup sessions, int threads);

}  // namespace millrace
