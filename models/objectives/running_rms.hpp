#pragma once
// What advantages are divided by: the root of an exponential mean of past batches' mean square, as Adam's second moment
// has it. It changes between batches only, forgets an old reward after some ten of them, and centres nothing.
#include <algorithm>
#include <cmath>

namespace millrace {

class RunningRms {
 public:
  // 1 until a batch was seen.
  double divisor() const { return weight_ > 0 ? std::max(std::sqrt(mean_square_ / weight_), smallest) : 1.0; }

  // At a batch's end: sum of squares and number of its numbers. An empty or non-finite batch changes nothing.
  void update(double sum_of_squares, double count) {
    if (count <= 0 || !std::isfinite(sum_of_squares)) return;
    mean_square_ = decay * mean_square_ + (1 - decay) * sum_of_squares / count;
    weight_ = decay * weight_ + (1 - decay);
  }

  // For checkpoints.
  double mean_square() const { return mean_square_; }
  double weight() const { return weight_; }
  void restore(double mean_square, double weight) {
    mean_square_ = mean_square;
    weight_ = weight;
  }

 private:
  static constexpr double decay = 0.9;      // a batch
  static constexpr double smallest = 1e-6;  // keeps an all-zero history from dividing by zero
  double mean_square_ = 0;
  double weight_ = 0;  // sum of the weights given so far: undoes the bias towards the initial 0
};

}  // namespace millrace
