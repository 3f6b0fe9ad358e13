#pragma once
// When generation waits for training, beyond the bound on staleness.
#include <algorithm>
#include <stdexcept>
#include <string>

namespace millrace {

class Pacing {
 public:
  // All numbers are groups, as in the gate.
  Pacing(const std::string& name, int max_lag, int batch) : most_ahead_(max_lag * batch), batch_(batch) {
    if (name == "async") {
      ahead_ = most_ahead_;  // a full pipeline; it waits for capacity only
    } else if (name == "just_in_time") {
      ahead_ = std::min(batch, most_ahead_);
      adapts_ = true;
    } else if (name == "sync") {
      ahead_ = 0;  // the batch being made is the only one there is
    } else if (name == "lockstep") {
      ahead_ = std::min(batch, most_ahead_);  // one batch is made while one is trained
      in_turns_ = true;
    } else {
      throw std::invalid_argument("pacing \"" + name + "\": use async, just_in_time, sync or lockstep");
    }
  }

  // How many may be running or queued beyond one batch.
  int ahead() const { return ahead_; }

  // A step is over. `starved`: at some time in it the learner found less than it could take. What waits in the queue
  // grows old there, so that just-in-time keeps no more of it than spares the learner from waiting: it gives way at
  // once when that happens, and tries with a little less after some steps in which it did not.
  void step_over(bool starved) {
    if (!adapts_) return;
    if (starved) {
      ahead_ = std::min(most_ahead_, ahead_ + std::max(1, batch_ / 4));
      well_fed_ = 0;
    } else if (++well_fed_ == patience) {
      ahead_ = std::max(0, ahead_ - std::max(1, batch_ / 16));
      well_fed_ = 0;
    }
  }

  // In lockstep the order of ids counts, not that of arrival: a step begins when nothing else can come into its batch,
  // and is completed when every session that may run has come in. Which policy samples which trajectory, and which
  // batch learns from it, then follows from the seed alone.
  bool in_turns() const { return in_turns_; }

 private:
  static constexpr int patience = 8;  // steps
  int most_ahead_;
  int batch_;
  int ahead_ = 0;
  int well_fed_ = 0;  // steps since the learner was starved, or since less was tried
  bool adapts_ = false;
  bool in_turns_ = false;
};

}  // namespace millrace
