#include "runtime/watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace millrace {

Watchdog::Watchdog(const Activity& activity, double hang_s, std::function<void(const std::string& what)> end) {
  thread_ = std::thread([this, &activity, hang_s, end = std::move(end)] {
    const auto interval = std::chrono::duration<double>(std::clamp(hang_s / 10, 0.01, 1.0));
    std::unique_lock lock(mutex_);
    while (!over_changed_.wait_for(lock, interval, [this] { return over_; })) {
      const std::string what = activity.hanging(std::chrono::steady_clock::now(), hang_s);
      if (!what.empty()) return end(what);
    }
  });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  over_changed_.notify_all();
  thread_.join();
}

}  // namespace millrace
