#pragma once
// How often and how fast something that dies is started again: at once the first time, then after twice as long each
// time, and not at all any more once it has died too often within a minute.
#include <algorithm>
#include <deque>
#include <optional>

namespace millrace {

class RestartBudget {
 public:
  RestartBudget(int per_minute, double backoff_s) : per_minute_(per_minute), first_(backoff_s) {}

  // It died at `now` (seconds of a clock that never goes back): seconds to wait, or nothing: it dies too often.
  std::optional<double> died(double now) {
    while (!deaths_.empty() && now - deaths_.front() > 60) deaths_.pop_front();
    deaths_.push_back(now);
    const int count = static_cast<int>(deaths_.size());
    if (count > per_minute_) return std::nullopt;
    if (count == 1) return 0.0;
    return std::min(longest, first_ * static_cast<double>(1u << std::min(count - 2, 20)));
  }

 private:
  static constexpr double longest = 5.0;
  int per_minute_;
  double first_;
  std::deque<double> deaths_;
};

}  // namespace millrace
