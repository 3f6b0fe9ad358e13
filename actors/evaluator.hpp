#pragma once
// Lets the policy write on a frozen set of tasks that it is not trained on, and compares the answers with what the
// policy at the start would have made of them. Its sessions are those of training, but for who gives their permits and
// takes their trajectories.
#include <optional>

#include "actors/permits.hpp"
#include "actors/protocol/interfaces.hpp"
#include "actors/session_host.hpp"
#include "models/token_scorer.hpp"

namespace millrace {

struct EvaluatorState {
  std::optional<TokenScorer> start_policy;
  std::optional<caf::typed_response_promise<Evaluation>> asked;
  Version version = 0;
  SessionHostActor host;
  Permits permits;
  int tasks = 0;  // of an evaluation
  int begun = 0;
  std::vector<Trajectory> finished;
  int failed = 0;
  static const char* name;
};

// `sessions`: as the session host of training has it. Whoever gives the permits there is not asked for anything.
EvaluatorActor::behavior_type evaluator(EvaluatorActor::stateful_pointer<EvaluatorState> self,
                                        std::shared_ptr<const Model> start, SessionSetup sessions, int threads);

}  // namespace millrace
