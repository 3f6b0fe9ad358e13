#pragma once
// Holds the reward spec in force. One message, one spec: an answer is scored as a whole under the spec that its score
// names, and a shift takes place between two scores.
#include "actors/protocol/interfaces.hpp"
#include "runtime/reward.hpp"

namespace millrace {

struct ScorerState {
  std::shared_ptr<const RewardSpec> spec;
  std::uint64_t version = 1;

  ScoreReply score(const ScoreRequest& request) const;
  SpecReply change(const SpecChange& change, const std::string& directory);
  SpecInfo info() const;
  static const char* name;
};

ScorerActor::behavior_type scorer(ScorerActor::stateful_pointer<ScorerState> self,
                                  std::shared_ptr<const RewardSpec> spec, std::string directory, Metrics* metrics);

}  // namespace millrace
