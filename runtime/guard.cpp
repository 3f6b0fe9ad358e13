#include "runtime/guard.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace millrace {

namespace {

constexpr std::size_t window = 10;  // steps
constexpr double near_best = 0.1;   // share of the best mean reward that may be lost, and all is well

double mean_of(const std::deque<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

double median_of(std::deque<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

// What is left of the best reward when that share of it is lost.
double left_of(double best, double lost) { return best - lost * std::abs(best); }

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
    const double now = mean_of(rewards_), least = left_of(best_reward_, s.max_reward_loss);
    if (has_best_ && now < least) return words("mean reward of ten steps", now, "below", least);
    best_reward_ = has_best_ ? std::max(best_reward_, now) : now;
    has_best_ = true;
  }
  return "";
}

// After a shift, rewards before say nothing about rewards after.
void Guard::remember_reward(const StepReport& report) {
  if (report.spec_newest > spec_ || report.spec_oldest < report.spec_newest) {
    rewards_.clear();
    has_best_ = false;
    spec_ = report.spec_newest;
    return;
  }
  keep(rewards_, report.reward_mean);
}

bool Guard::is_near_best() const {
  if (!has_best_) return true;
  return rewards_.size() == window && mean_of(rewards_) >= left_of(best_reward_, near_best);
}

std::string Guard::judge(const StepReport& report) {
  remember_reward(report);
  const std::string wrong = wrong_with(report);
  if (wrong.empty()) {
    keep(norms_, report.policy_gradient_norm);
    bad_steps_ = 0;
    // Before the step there was the version before; its oldest answers are lag_max versions older.
    const Version proven = report.policy_version - std::min(report.policy_version, 1 + report.lag_max);
    if (++good_steps_ >= settings_.patience && is_near_best()) last_good_ = std::max(last_good_, proven);
    return "";
  }
  good_steps_ = 0;
  if (++bad_steps_ < settings_.patience) return "";
  bad_steps_ = 0;
  rewards_.clear();
  has_best_ = false;
  return wrong + " for " + std::to_string(settings_.patience) + " steps";
}

std::string Guard::judge(const Evaluation& evaluation) {
  if (evaluation.tasks == 0) return "";
  if (evaluation.kl > settings_.max_kl)
    return words("KL to the start policy", evaluation.kl, "above", settings_.max_kl);
  const bool comparable = best_evaluation_.version > 0 && best_evaluation_.spec_version == evaluation.spec_version;
  if (comparable && evaluation.reward_mean < best_evaluation_.reward_mean) {
    const double least = left_of(best_evaluation_.reward_mean, settings_.max_reward_loss);
    return evaluation.reward_mean < least ? words("held-out reward", evaluation.reward_mean, "below", least) : "";
  }
  best_evaluation_ = evaluation;
  return "";
}

}  // namespace millrace
