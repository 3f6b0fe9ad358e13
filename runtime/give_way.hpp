#pragma once
// Learners give way to applications: their threads get the cores that nobody else of the service wants, and after each
// pass over a part of a batch they pause while turns are being served, at most `priority` times as long as the pass
// took.
#include <chrono>
#include <thread>

#include <sys/resource.h>

#include "runtime/activity.hpp"

namespace millrace {

// Of the calling thread and of those that it starts from now on: Linux has a nice value for each. Where it has none,
// nothing happens.
inline void give_way_on_cores() {
  constexpr int nice_value = 10;  // a tenth of the weight of the others
  setpriority(PRIO_PROCESS, 0, nice_value);
}

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
