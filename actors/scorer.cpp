#include "actors/scorer.hpp"

#include <cmath>

#include "actors/exceptions.hpp"
#include "runtime/log.hpp"

namespace millrace {

const char* ScorerState::name = "scorer";

ScoreReply ScorerState::score(const ScoreRequest& request) const {
  Score score = spec->score(request.answer, request.expected_answer);
  score.spec_version = version;
  if (!std::isfinite(score.total)) return fail("reward of spec " + score.spec + " is not finite");
  return score;
}

SpecReply ScorerState::change(const SpecChange& change, const std::string& directory) {
  if (change.if_match != 0 && change.if_match != version) {
    return {info(),
            "the reward spec is at version " + std::to_string(version) + ", not " + std::to_string(change.if_match) +
                ": read it again",
            SpecFault::conflict};
  }
  expected<RewardSpec> next = change.spec.is_string() ? load_reward_spec(directory, change.spec.get<std::string>())
                                                      : RewardSpec::parse(change.spec);
  if (!next) return {info(), next.error().message, SpecFault::invalid};
  spec = std::make_shared<const RewardSpec>(std::move(*next));
  ++version;
  return {info(), "", {}};
}

SpecInfo ScorerState::info() const { return {version, spec->name(), spec->document()}; }

ScorerActor::behavior_type scorer(ScorerActor::stateful_pointer<ScorerState> self,
                                  std::shared_ptr<const RewardSpec> spec, std::string directory, Metrics* metrics) {
  die_of_exceptions(self, ScorerState::name);
  self->state.spec = std::move(spec);
  metrics->reward_spec(self->state.version);
  return {
      [self](score_atom, const ScoreRequest& request) { return self->state.score(request); },
      [self](spec_atom) { return self->state.info(); },
      [=](spec_atom, const SpecChange& change) {
        SpecReply reply = self->state.change(change, directory);
        if (reply.error.empty()) {
          metrics->reward_spec(reply.info.version);
          metrics->preference_shift();
          log_info("scorer",
                   "reward spec " + reply.info.name + " in force as version " + std::to_string(reply.info.version));
        }
        return reply;
      },
  };
}

}  // namespace millrace
