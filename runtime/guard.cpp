#include "runtime/guard.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace millrace {

namespace {

constexpr std::size_t window = 10;  // steps

double mean_of(const std::deque<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

double median_of(std::deque<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

void keep(std::deque<double>& numbers, double number) {
  numbers.push_back(number);
  if (numbers.size() > window) numbers.pop_front();
}

std::string words(const char* what, double is, const char* bound, double limit) {
  char text[120];
  std::snprintf(text, sizeof text, "%s is %.4g, %s %.4g", what, is, bound, limit);
  return text;
}

}  // namespace

std::string Guard::wrong_with(const StepReport& report) {
  const GuardSettings& s = settings_;
  const double masked = report.masked_share_low + report.masked_share_high;
  if (report.entropy < s.min_entropy) return words("entropy", report.entropy, "below", s.min_entropy);
  if (report.effective_sample_size < s.min_effective_sample_size) {
    return words("effective sample size", report.effective_sample_size, "below", s.min_effective_sample_size);
  }
  if (masked > s.max_masked_share) return words("masked share", masked, "above", s.max_masked_share);
  if (norms_.size() == window) {
    const double usual = median_of(norms_);
    if (report.policy_gradient_norm > s.max_gradient_growth * usual) {
      return words("gradient norm", report.policy_gradient_norm, "above", s.max_gradient_growth * usual);
    }
  }
  if (rewards_.size() == window) {
    const double now = mean_of(rewards_), least = best_reward_ - s.max_reward_loss * std::abs(best_reward_);
    if (has_best_ && now < least) return words("mean reward of ten steps", now, "below", least);
    best_reward_ = has_best_ ? std::max(best_reward_, now) : now;
    has_best_ = true;
  }
  return "";
}

std::string Guard::judge(const StepReport& report) {
  keep(rewards_, report.reward_mean);
  const std::string wrong = wrong_with(report);
  if (wrong.empty()) {
    keep(norms_, report.policy_gradient_norm);
    bad_steps_ = 0;
    if (++good_steps_ >= settings_.patience) last_good_ = report.policy_version;
    return "";
  }
  good_steps_ = 0;
  if (++bad_steps_ < settings_.patience) return "";
  bad_steps_ = 0;
  rewards_.clear();
  return wrong + " for " + std::to_string(settings_.patience) + " steps";
}

void Guard::forget_rewards() {
  rewards_.clear();
  has_best_ = false;
}

}  // namespace millrace
