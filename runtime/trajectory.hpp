#pragma once
// A trajectory: one finished session as it travels from its environment through scorer, gatekeeper and ledger to the
// learners. Every vector over tokens has one entry a token, in the order of the text.
#include <cstdint>
#include <string>
#include <vector>

#include "models/sequence.hpp"
#include "models/text/tokens.hpp"

namespace millrace {

using TrajectoryId = std::uint64_t;

inline constexpr const char* live_environment = "live";  // the environment of trajectories made of live traffic

enum class Ending {
  terminated,  // the environment's task came to its end
  truncated,   // a limit (turns, tokens, context) ended it
  failed       // something broke; never trained
};

// What became of a trajectory. The names are the label values of millrace_trajectories_total{outcome}.
enum class Outcome {
  queued,  // accepted, not yet in a published version
  trained,
  stale,    // its lag was above max_lag when the learner took it
  expired,  // its session ran out of time
  env_failed,
  score_failed,   // the scorer failed or gave a reward that is not finite
  invalid,        // cannot be trained: sampled without full support, no action token, prompt too long
  group_dropped,  // its group has nothing to teach: all rewards equal, or no other member
  skipped,        // its batch made no policy step: value-only step, non-finite gradient
  rolled_back,    // sampled by policies that a rollback or a recovery abandoned
  aborted         // broke off before it could be accepted
};

const char* name_of(Ending ending);
const char* name_of(Outcome outcome);

struct ScorePart {
  std::string name;
  double value = 0;
  double weight = 0;
};

// total = sum of weight * value. Always of one spec as a whole.
struct Score {
  double total = 0;
  std::vector<ScorePart> parts;
  std::string spec;
  std::uint64_t spec_version = 0;
};

// Seconds spent in each stage; millrace_stage_duration_seconds{stage}.
struct StageSeconds {
  double generate = 0;
  double environment = 0;
  double score = 0;
  double queue = 0;
  double value = 0;
  double learn = 0;
};

struct Trajectory {
  TrajectoryId id = 0;
  std::string environment;
  std::string task;      // the user's words
  std::string answer;    // what the policy wrote, turns joined by newlines
  std::string expected;  // right answer, where the task has one
  Sequence sequence;
  std::vector<Version> versions;  // policy version that sampled the token; 0 where mask is 0
  int turns = 0;
  Ending ending = Ending::failed;
  std::string invalid;  // why it cannot be trained ("sampling", "no action tokens", ...); empty = it can
  Score score;
  double shaped_reward = 0;           // all rewards, less the penalty for length where the recipe has one
  std::vector<double> group_rewards;  // those of all members of its group, where that is the baseline
  Version finished_at = 0;            // newest weights in use when its last turn ended
  double created = 0;                 // Unix seconds
  StageSeconds seconds;

  Sequence scored_sequence() const;  // as the critic takes it: with the version of the spec that scored it
  std::size_t action_tokens() const;
  Version oldest_version() const;  // of its action tokens; 0 where there are none
  Version newest_version() const;
};

}  // namespace millrace
