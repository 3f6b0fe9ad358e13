#include "runtime/episode.hpp"

#include <algorithm>

namespace millrace {

Episode::Episode(const Tokenizer& tokenizer, const EnvironmentSettings& limits, int max_context)
    : tokenizer_(tokenizer), max_turns_(limits.max_turns), max_tokens_(std::min(limits.max_tokens, max_context)) {
  trajectory_.environment = limits.name;
}

expected<void> Episode::begin(const Task& task) {
  trajectory_.task = task.text;
  trajectory_.expected = task.expected;
  const expected<Tokens> prompt = encode_chat(tokenizer_, task.prompt);
  if (!prompt) return tl::unexpected(prompt.error());
  append_given(*prompt);
  return {};
}

bool Episode::has_room() const {
  return trajectory_.turns < max_turns_ && std::ssize(trajectory_.sequence.tokens) < max_tokens_;
}

std::string Episode::add_turn(const FinishedTurn& turn, const Sampling& sampling) {
  append(turn.tokens, true, turn.logp, turn.versions);
  const bool full_support = sampling.temperature > 0 && sampling.top_p >= 1.0 && sampling.top_k <= 0;
  if (!full_support) trajectory_.invalid = "sampling";
  trajectory_.sequence.temperature = sampling.temperature;
  trajectory_.finished_at = turn.last_weights;
  ++trajectory_.turns;
  turn_ended_ = !turn.tokens.empty() && turn.tokens.back() == tokenizer_.eos();

  std::string text = tokenizer_.decode(turn.tokens);
  if (!trajectory_.answer.empty()) trajectory_.answer += '\n';
  trajectory_.answer += text;
  return text;
}

expected<void> Episode::observe(const Observation& observation) {
  if (observation.reward != 0) {
    trajectory_.sequence.rewards.back() += static_cast<float>(observation.reward);
    rewarded_ = true;
  }
  if (observation.over) return {};
  const expected<Tokens> tokens = encode_observation(tokenizer_, observation.message, turn_ended_);
  if (!tokens) return tl::unexpected(tokens.error());
  append_given(*tokens);
  return {};
}

Trajectory Episode::finish(Ending ending) {
  trajectory_.ending = ending;
  // A final reward makes it terminal, also when a limit ended it (DESIGN, section 2); only a stream of rewards that the
  // environment cut short goes on beyond its last token.
  trajectory_.sequence.terminal = !(ending == Ending::truncated && rewarded_);
  if (trajectory_.invalid.empty() && trajectory_.action_tokens() == 0) trajectory_.invalid = "no action tokens";
  return std::move(trajectory_);
}

// What the policy reads: it has no log-prob and no version.
void Episode::append_given(const Tokens& tokens) {
  append(tokens, false, std::vector<float>(tokens.size()), std::vector<Version>(tokens.size()));
}

void Episode::append(const Tokens& tokens, bool action, const std::vector<float>& logp,
                     const std::vector<Version>& versions) {
  Sequence& sequence = trajectory_.sequence;
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
  sequence.mask.insert(sequence.mask.end(), tokens.size(), action ? 1 : 0);
  sequence.behaviour.insert(sequence.behaviour.end(), logp.begin(), logp.end());
  sequence.rewards.insert(sequence.rewards.end(), tokens.size(), 0.0F);
  trajectory_.versions.insert(trajectory_.versions.end(), versions.begin(), versions.end());
}

}  // namespace millrace
