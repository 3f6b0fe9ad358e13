#include "models/reward_baseline.hpp"

#include <cmath>
#include <stdexcept>

#include "models/objectives/group_advantage.hpp"

namespace millrace {

RewardBaseline::RewardBaseline(const Baseline& baseline)
    : of_group_(baseline.kind == "group"), mean_(static_cast<std::size_t>(baseline.window)) {
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
}

}  // namespace millrace
