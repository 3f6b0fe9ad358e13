#pragma once
// What a reward spec would say of trajectories that are already there: how rewards and ranks would change.
#include <string>
#include <vector>

#include "runtime/reward.hpp"

namespace millrace {

struct PastAnswer {
  TrajectoryId id = 0;
  std::string answer;
  std::string expected_answer;
  std::string task;
  double reward = 0;  // as it was given
};

// {"spec", "compared", "mean_before", "mean_after", "same_reward_share", "rank_correlation" (Spearman, null where
// undefined), "examples": [{"id", "answer", "before", "after", "rank_before", "rank_after"}], "warnings"}; examples are
// the `shown` whose rank moves most. Rank 1 is the best; equal rewards share the mean of their ranks. scores[i] is what
// the spec says of answers[i]; those it says nothing of are left out, with a warning.
nlohmann::json dry_run(const std::string& spec, const std::vector<PastAnswer>& answers,
                       const std::vector<expected<Score>>& scores, std::size_t shown = 8);

}  // namespace millrace
