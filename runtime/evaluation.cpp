#include "runtime/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace millrace {

Evaluation evaluation_of(const std::vector<Trajectory>& trajectories,
                         const std::vector<std::vector<float>>& start_logp) {
  Evaluation result;
  std::set<std::pair<TokenId, TokenId>> distinct;
  double tokens = 0, pairs = 0, now = 0, then = 0;
  for (std::size_t i = 0; i < trajectories.size(); ++i) {
    const Sequence& sequence = trajectories[i].sequence;
    for (std::size_t t = 0; t < sequence.tokens.size(); ++t) {
      if (!sequence.mask[t]) continue;
      ++tokens;
      now += double{sequence.behaviour[t]};
      then += double{start_logp[i][t]};
      if (t == 0 || !sequence.mask[t - 1]) continue;
      ++pairs;
      distinct.emplace(sequence.tokens[t - 1], sequence.tokens[t]);
    }
    result.reward_mean += trajectories[i].score.total / static_cast<double>(trajectories.size());
    result.spec_version = std::max(result.spec_version, trajectories[i].score.spec_version);
  }
  result.tasks = static_cast<int>(trajectories.size());
  if (tokens == 0) return result;
  result.perplexity = std::exp(-then / tokens);
  result.kl = (now - then) / tokens;
  result.distinct_bigrams = pairs > 0 ? static_cast<double>(distinct.size()) / pairs : 1.0;
  result.length_mean = tokens / static_cast<double>(trajectories.size());
  return result;
}

}  // namespace millrace
