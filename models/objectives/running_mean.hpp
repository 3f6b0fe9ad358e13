#pragma once
// A reward against the mean of the last ones before it.
#include <cstddef>
#include <deque>
#include <utility>

namespace millrace {

class RunningMean {
 public:
  explicit RunningMean(std::size_t window) : window_(window) {}
  // reward - mean of the last `window` rewards, which it then joins; the mean of none is 0.
  double advantage(double reward);

  const std::deque<double>& rewards() const { return rewards_; }  // for checkpoints
  void restore(std::deque<double> rewards) { rewards_ = std::move(rewards); }

 private:
  std::size_t window_;
  std::deque<double> rewards_;
};

}  // namespace millrace
