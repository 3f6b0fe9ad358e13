#pragma once
// Ends the process when some actor hangs: a handler that does not return cannot be stopped from outside. Whoever keeps
// the service running starts it anew, and it goes on from its last checkpoint.
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/activity.hpp"

namespace millrace {

class Watchdog {
 public:
  // `end` is called, on a thread of its own, with what hangs for more than so many seconds.
  Watchdog(const Activity& activity, double hang_s, std::function<void(const std::string& what)> end);
  ~Watchdog();

 private:
  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace millrace
