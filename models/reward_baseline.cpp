#include "models/reward_baseline.hpp"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "models/objectives/group_advantage.hpp"

namespace millrace {

RewardBaseline::RewardBaseline(const Baseline& baseline)
    : of_group_(baseline.kind == "group"), mean_(static_cast<std::size_t>(baseline.window)), mean_at_start_(mean_) {
  if (!of_group_ && baseline.kind != "running_mean") {
    throw std::invalid_argument("baseline.kind \"" + baseline.kind + "\" is no reward baseline");
  }
}

std::vector<float> RewardBaseline::advantages(const Sequence& sequence, double reward, std::span<const double> group) {
  double advantage = std::nan("");
  if (std::isfinite(reward)) advantage = of_group_ ? group_advantage(reward, group) : mean_.advantage(reward);
  const double scaled = of_group_ ? advantage : advantage / rms_.divisor();
  std::vector<float> result;
  for (const auto is_action : sequence.mask) {
    result.push_back(is_action ? static_cast<float>(scaled) : 0.0f);
    if (!is_action || !std::isfinite(advantage)) continue;
    squares_ += advantage * advantage;
    tokens_ += 1;
  }
  return result;
}

void RewardBaseline::step() {
  rms_.update(squares_, tokens_);
  squares_ = tokens_ = 0;
  mean_at_start_ = mean_;
}

LearnerImagePtr RewardBaseline::image() const {
  const auto numbers = std::make_shared<std::vector<double>>(std::vector{rms_.mean_square(), rms_.weight()});
  const std::deque<double>& rewards = mean_at_start_.rewards();
  numbers->insert(numbers->end(), rewards.begin(), rewards.end());
  const TensorView view{
      "reward_baseline", "F64", {static_cast<std::int64_t>(numbers->size())}, std::as_bytes(std::span(*numbers))};
  return std::make_shared<const LearnerImage>(TensorViews{view}, numbers, std::promise<void>());
}

expected<void> RewardBaseline::restore(std::span<const TensorView> image) {
  if (image.size() != 1 || image[0].name != "reward_baseline" || image[0].bytes.size() < 2 * sizeof(double)) {
    return fail("reward_baseline is missing: it was written with another recipe");
  }
  std::vector<double> numbers(image[0].bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), image[0].bytes.data(), image[0].bytes.size());
  rms_.restore(numbers[0], numbers[1]);
  mean_.restore({numbers.begin() + 2, numbers.end()});
  mean_at_start_ = mean_;
  squares_ = tokens_ = 0;
  return {};
}

}  // namespace millrace
