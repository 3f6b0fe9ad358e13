#pragma once
// Watches a run for collapse: a policy that has stopped exploring, a trust region that masks nearly everything, a
// reward that falls far below its best, gradients that explode, tasks it is not trained on that it does worse than
// before. Plain arithmetic on step reports and evaluations; the observer acts on it.
#include <deque>
#include <string>

#include "config/settings.hpp"
#include "runtime/metrics.hpp"

namespace millrace {

class Guard {
 public:
  explicit Guard(const GuardSettings& settings) : settings_(settings) {}

  // What is wrong since `patience` steps, in words; empty: nothing. After an alarm it starts anew: what comes then is
  // compared with what it starts from.
  std::string judge(const StepReport& report);
  // What is wrong with the policy on tasks it is not trained on; at once: evaluations are rare and means over tasks.
  std::string judge(const Evaluation& evaluation);
  // The last version whose answers are known to have been good: nothing was wrong, nor had been for as many steps as
  // patience asks, and the mean reward of ten steps was near its best; a slow fall is told late, and who goes back to
  // its middle falls again. 0: none yet.
  Version last_good() const { return last_good_; }

 private:
  std::string wrong_with(const StepReport& report);
  void remember_reward(const StepReport& report);
  bool is_near_best() const;

  GuardSettings settings_;
  std::deque<double> rewards_, norms_;  // of the last steps
  double best_reward_ = 0;
  bool has_best_ = false;
  std::uint64_t spec_ = 0;  // that the rewards were given under
  Evaluation best_evaluation_;
  int bad_steps_ = 0, good_steps_ = 0;
  Version last_good_ = 0;
};

}  // namespace millrace
