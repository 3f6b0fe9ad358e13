#pragma once
// How importance ratios are spread: counts in bins of one per cent, so that they can be added across passes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace millrace {

class RatioHistogram {
 public:
  void add(double log_ratio) {
    const double place = std::isnan(log_ratio) ? 0.0 : std::floor((log_ratio + largest) / width);
    counts_[static_cast<std::size_t>(std::clamp(place, 0.0, double{bins - 1}))] += 1;
  }

  RatioHistogram& operator+=(const RatioHistogram& other) {
    for (std::size_t i = 0; i < bins; ++i) counts_[i] += other.counts_[i];
    return *this;
  }

  // The ratio below which this share of them lies, to half a per cent between e^-5 and e^5; 1 where there are none.
  double quantile(double share) const {
    double all = 0;
    for (const double count : counts_) all += count;
    double below = 0;
    for (std::size_t i = 0; i < bins && all > 0; ++i) {
      below += counts_[i];
      if (below >= share * all) return std::exp((static_cast<double>(i) + 0.5) * width - largest);
    }
    return 1;
  }

 private:
  static constexpr std::size_t bins = 1001;  // the middle one holds ratio 1
  static constexpr double width = 0.01;
  static constexpr double largest = width * bins / 2;
  std::array<double, bins> counts_{};
};

}  // namespace millrace
