#pragma once
// Learners give way to applications: after each pass over a part of a batch they pause while turns are being served, at
// most `priority` times as long as the pass took.
#include <chrono>
#include <thread>

#include "runtime/activity.hpp"

namespace millrace {

class GiveWay {
 public:
  GiveWay(const Activity& activity, int priority) : activity_(activity), priority_(priority) {}

  void end() const {  // of a pass that began with this object, or with the last call of next()
    const auto until = Clock::now() + priority_ * (Clock::now() - begun_);
    while (activity_.served_turns > 0 && Clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void next() {  // one pass ends, another begins
    end();
    begun_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Activity& activity_;
  int priority_;
  Clock::time_point begun_ = Clock::now();
};

}  // namespace millrace
