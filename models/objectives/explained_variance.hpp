#pragma once
// How much of the returns' variance a critic foresaw: 1 - Var(R - V) / Var(R). 1 is perfect, 0 no better than a
// constant, below 0 worse than one; population variances.
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

namespace millrace {

// NaN where Var(R) < 1e-8: there is nothing to foresee. Both spans [tokens].
double explained_variance(std::span<const double> values, std::span<const double> returns);

// The same over the action tokens of the last trajectories.
class ExplainedVarianceWindow {
 public:
  explicit ExplainedVarianceWindow(std::size_t trajectories) : limit_(trajectories) {}
  void add(std::vector<double> values, std::vector<double> returns);  // of one trajectory
  double value() const;

  struct Entry {
    std::vector<double> values, returns;
  };
  const std::deque<Entry>& entries() const { return entries_; }  // for checkpoints, oldest first

 private:
  std::size_t limit_;
  std::deque<Entry> entries_;
};

}  // namespace millrace
