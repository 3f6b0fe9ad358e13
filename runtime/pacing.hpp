#pragma once
// When generation waits for training, beyond the bound on staleness.
#include <algorithm>
#include <stdexcept>
#include <string>

namespace millrace {

class Pacing {
 public:
  Pacing(const std::string& name, int max_lag, int batch) : batch_(batch) {
    if (name == "async") {
      max_ahead_ = max_lag;  // a full pipeline; it waits for capacity only
    } else if (name == "sync") {
      max_ahead_ = 0;  // the batch being made is the only one there is
    } else if (name == "lockstep") {
      max_ahead_ = std::min(1, max_lag);  // one batch is made while one is trained
      waves_ = true;
    } else {
      throw std::invalid_argument("pacing \"" + name + "\": use async, sync or lockstep");
    }
  }

  // What stands for max_lag in the gate's capacity: versions generation may be ahead of the learner.
  int max_ahead() const { return max_ahead_; }

  // In lockstep the order of ids counts, not that of arrival, and a step begins with its whole batch: with max_lag 0 and
  // one thread the whole service then depends on its seed alone.
  bool in_order() const { return waves_; }

  // In lockstep a wave of a batch's groups starts together; the next one when all of it has come in.
  bool may_start(int running) const { return !waves_ || left_ > 0 || running == 0; }
  void started(int running) {
    if (!waves_) return;
    if (left_ == 0 && running == 0) left_ = batch_;
    --left_;
  }

 private:
  int batch_;
  int max_ahead_ = 0;
  bool waves_ = false;
  int left_ = 0;  // groups that may still start in this wave
};

}  // namespace millrace
