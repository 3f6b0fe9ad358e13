#include "models/objectives/gae.hpp"

#include <algorithm>

namespace millrace {

std::vector<double> skip_observation_gae(std::span<const std::uint8_t> mask, std::span<const double> values,
                                         std::span<const float> rewards, double after_last, double gamma,
                                         double lambda) {
  std::vector<double> advantages(mask.size(), 0.0);
  double next_value = after_last;
  double next_advantage = 0;
  double reward = 0;             // what arrived with this action and the observations that follow it
  std::size_t first_action = 0;  // where the loop ends up; takes what arrived before any action
  for (std::size_t t = mask.size(); t-- > 0;) {
    reward += rewards[t];
    if (!mask[t]) continue;
    const double delta = reward + gamma * next_value - values[t];
    next_advantage = delta + gamma * lambda * next_advantage;
    advantages[t] = next_advantage;
    next_value = values[t];
    first_action = t;
    reward = 0;
  }
  if (first_action < mask.size() && mask[first_action]) advantages[first_action] += reward;
  return advantages;
}

double length_adaptive_lambda(double alpha, std::size_t length) {
  return std::clamp(1.0 - 1.0 / (alpha * static_cast<double>(length)), 0.0, 1.0);
}

}  // namespace millrace
