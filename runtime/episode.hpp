#pragma once
// The transcript of one session as it grows: the policy's turns and the environment's observations become one sequence
// of tokens. Tokens are only ever appended; what the policy sampled is never made again from its text.
#include <cstdint>
#include <string>

#include "models/decoder.hpp"
#include "runtime/environment.hpp"
#include "runtime/trajectory.hpp"

namespace millrace {

class Episode {
 public:
  Episode(const Tokenizer& tokenizer, const EnvironmentSettings& limits, int max_context);

  expected<void> begin(const Task& task);  // error: the model's chat template refuses the conversation
  // Whether another turn may be asked for; if not, the episode is over as truncated.
  bool has_room() const;
  const Tokens& prompt() const { return trajectory_.sequence.tokens; }  // everything so far
  // Appends a turn; returns its text without control tokens.
  std::string add_turn(const FinishedTurn& turn, const Sampling& sampling);
  // Credits the turn's reward and appends the message the policy reads next, as tokens that are never trained.
  expected<void> observe(const Observation& observation);
  // Ends it and hands the trajectory out. `per_step_rewards`: bootstrap when truncated from outside the task.
  Trajectory finish(Ending ending);

  const std::string& answer() const { return trajectory_.answer; }
  const std::string& task() const { return trajectory_.task; }
  const std::string& expected_answer() const { return trajectory_.expected; }

 private:
  void append_given(const Tokens& tokens);
  void append(const Tokens& tokens, bool action, const std::vector<float>& logp, const std::vector<Version>& versions);

  const Tokenizer& tokenizer_;
  int max_turns_;
  int max_tokens_;          // of the whole sequence
  bool turn_ended_ = true;  // the last turn sampled its own end-of-turn token
  bool rewarded_ = false;   // the environment gave rewards on the way
  Trajectory trajectory_;
};

}  // namespace millrace
