#include "runtime/dry_run.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace millrace {
namespace {

std::vector<double> ranks_of(const std::vector<double>& rewards) {
  std::vector<std::size_t> order(rewards.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rewards[a] > rewards[b]; });
  std::vector<double> ranks(rewards.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && rewards[order[last + 1]] == rewards[order[first]]) ++last;
    const double shared = 1 + static_cast<double>(first + last) / 2;
    for (; first <= last; ++first) ranks[order[first]] = shared;
  }
  return ranks;
}

double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// NaN where one of the two is constant.
double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean_a = mean_of(a);
  const double mean_b = mean_of(b);
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : std::nan("");
}

// Of those that have no other like them, none; a policy learns from differences.
double largest_same_share(std::vector<double> rewards) {
  std::sort(rewards.begin(), rewards.end());
  std::size_t most = 0;
  for (std::size_t first = 0, i = 0; i < rewards.size(); ++i) {
    if (rewards[i] != rewards[first]) first = i;
    most = std::max(most, i - first + 1);
  }
  return rewards.empty() ? 0 : static_cast<double>(most) / static_cast<double>(rewards.size());
}

}  // namespace

nlohmann::json dry_run(const std::string& spec, const std::vector<PastAnswer>& asked,
                       const std::vector<expected<Score>>& scores, std::size_t shown) {
  std::vector<PastAnswer> answers;
  std::vector<double> before;
  std::vector<double> after;
  std::string failure;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!scores[i]) {
      failure = scores[i].error().message;
      continue;
    }
    answers.push_back(asked[i]);
    before.push_back(asked[i].reward);
    after.push_back(scores[i]->total);
  }
  const std::vector<double> rank_before = ranks_of(before);
  const std::vector<double> rank_after = ranks_of(after);

  std::vector<std::size_t> moved(answers.size());
  std::iota(moved.begin(), moved.end(), std::size_t{0});
  std::stable_sort(moved.begin(), moved.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(rank_after[a] - rank_before[a]) > std::abs(rank_after[b] - rank_before[b]);
  });
  moved.resize(std::min(moved.size(), shown));
  auto examples = nlohmann::json::array();
  for (const std::size_t i : moved) {
    examples.push_back({{"id", answers[i].id},
                        {"answer", answers[i].answer},
                        {"before", before[i]},
                        {"after", after[i]},
                        {"rank_before", rank_before[i]},
                        {"rank_after", rank_after[i]}});
  }

  auto warnings = nlohmann::json::array();
  const double same = largest_same_share(after);
  if (!failure.empty()) {
    warnings.push_back(std::to_string(asked.size() - answers.size()) + " of " + std::to_string(asked.size()) +
                       " answers got no score: " + failure);
  }
  if (asked.empty()) {
    warnings.push_back("There are no trajectories to try it on yet.");
  } else if (!answers.empty() && same > 0.9) {
    warnings.push_back("Nearly all of them would get the same reward: there would be little to learn from.");
  }
  const double agreement = correlation(rank_before, rank_after);
  return {{"spec", spec},
          {"compared", answers.size()},
          {"mean_before", mean_of(before)},
          {"mean_after", mean_of(after)},
          {"same_reward_share", same},
          {"rank_correlation", std::isfinite(agreement) ? nlohmann::json(agreement) : nlohmann::json()},
          {"examples", examples},
          {"warnings", warnings}};
}

}  // namespace millrace
