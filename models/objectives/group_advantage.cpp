#include "models/objectives/group_advantage.hpp"

#include <cmath>

namespace millrace {

double group_advantage(double reward, std::span<const double> group) {
  double count = 0, sum = 0, squares = 0;
  for (const double other : group) {
    if (!std::isfinite(other)) continue;
    ++count;
    sum += other;
  }
  if (!std::isfinite(reward) || count == 0) return std::nan("");
  const double mean = sum / count;
  for (const double other : group) {
    if (std::isfinite(other)) squares += (other - mean) * (other - mean);
  }
  constexpr double epsilon = 1e-6;
  return (reward - mean) / (std::sqrt(squares / count) + epsilon);
}

}  // namespace millrace
