#include "models/objectives/explained_variance.hpp"

#include <limits>
#include <numeric>
#include <utility>

namespace millrace {

namespace {

double variance(std::span<const double> numbers) {
  const auto count = static_cast<double>(numbers.size());
  const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / count;
  double squares = 0;
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  return squares / count;
}

}  // namespace

double explained_variance(std::span<const double> values, std::span<const double> returns) {
  constexpr double nothing_to_explain = std::numeric_limits<double>::quiet_NaN();
  if (returns.empty()) return nothing_to_explain;
  const double total = variance(returns);
  if (total < 1e-8) return nothing_to_explain;
  std::vector<double> errors(returns.begin(), returns.end());
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i] -= values[i];
  return 1 - variance(errors) / total;
}

void ExplainedVarianceWindow::add(std::vector<double> values, std::vector<double> returns) {
  entries_.push_back({std::move(values), std::move(returns)});
  if (entries_.size() > limit_) entries_.pop_front();
}

double ExplainedVarianceWindow::value() const {
  std::vector<double> values, returns;
  for (const Entry& entry : entries_) {
    values.insert(values.end(), entry.values.begin(), entry.values.end());
    returns.insert(returns.end(), entry.returns.begin(), entry.returns.end());
  }
  return explained_variance(values, returns);
}

}  // namespace millrace
