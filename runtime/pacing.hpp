#pragma once
// When generation waits for training, beyond the bound on staleness.
#include <algorithm>
#include <stdexcept>
#include <string>

namespace millrace {

class Pacing {
 public:
  Pacing(const std::string& name, int max_lag) {
    if (name == "async") {
      max_ahead_ = max_lag;  // a full pipeline; it waits for capacity only
    } else if (name == "sync") {
      max_ahead_ = 0;  // the batch being made is the only one there is
    } else if (name == "lockstep") {
      max_ahead_ = std::min(1, max_lag);  // one batch is made while one is trained
      in_turns_ = true;
    } else {
      throw std::invalid_argument("pacing \"" + name + "\": use async, sync or lockstep");
    }
  }

  // What stands for max_lag in the gate's capacity: versions generation may be ahead of the learner.
  int max_ahead() const { return max_ahead_; }

  // In lockstep the order of ids counts, not that of arrival: a step begins when nothing else can come into its batch,
  // and is completed when every session that may run has come in. Which policy samples which trajectory, and which
  // batch learns from it, then follows from the seed alone.
  bool in_turns() const { return in_turns_; }

 private:
  int max_ahead_ = 0;
  bool in_turns_ = false;
};

}  // namespace millrace
