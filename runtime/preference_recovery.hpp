#pragma once
// How long the policy needs to turn after a preference shift: steps and seconds until the mean of the last `window`
// rewards, all given under the new spec, is back at 0.9 of its level before the shift.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>

namespace millrace {

class PreferenceRecovery {
 public:
  explicit PreferenceRecovery(std::size_t window) : window_(window) {}

  // `now`: seconds of a clock that never goes back.
  void shift(std::uint64_t spec_version, double now) {
    const double before = mean();
    target_ = before - 0.1 * (before < 0 ? -before : before);  // a tenth below, also where rewards are negative
    recovering_ = !rewards_.empty();
    rewards_.clear();
    spec_version_ = spec_version;
    steps_ = 0;
    shifted_ = now;
    seconds_ = 0;
  }

  void reward(double reward, std::uint64_t spec_version, double now) {
    if (spec_version < spec_version_) return;  // scored before the shift
    rewards_.push_back(reward);
    if (rewards_.size() > window_) rewards_.pop_front();
    if (!recovering_) return;
    seconds_ = now - shifted_;
    if (rewards_.size() == window_ && mean() >= target_) recovering_ = false;
  }

  void policy_step() {
    if (recovering_) ++steps_;
  }

  bool recovering() const { return recovering_; }
  std::uint64_t steps() const { return steps_; }  // since the last shift, until it had recovered; 0 without a shift
  double seconds() const { return seconds_; }

 private:
  double mean() const {
    return rewards_.empty()
               ? 0
               : std::accumulate(rewards_.begin(), rewards_.end(), 0.0) / static_cast<double>(rewards_.size());
  }

  std::size_t window_;
  std::deque<double> rewards_;  // the newest under the spec in force
  std::uint64_t spec_version_ = 0;
  double target_ = 0;
  double shifted_ = 0;
  double seconds_ = 0;
  std::uint64_t steps_ = 0;
  bool recovering_ = false;
};

}  // namespace millrace
