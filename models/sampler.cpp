#include "models/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

namespace millrace {

namespace {

// SplitMix64's finaliser: every bit of the result depends on every bit of z.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// A number in [0, 1) that follows from (seed, position). The seed is mixed first: seeds that are themselves steps of a
// SplitMix64 would otherwise give the same numbers, shifted.
double uniform(std::uint64_t seed, std::uint64_t position) {
  return static_cast<double>(mix(mix(seed) + (position + 1) * 0x9E3779B97F4A7C15ULL) >> 11) * 0x1.0p-53;
}

// The index at which the running sum of the probabilities passes u times their total.
std::size_t inverse_cdf(std::span<const float> probabilities, double u) {
  const double total = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  double left = u * total;
  std::size_t last_possible = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] <= 0) continue;
    last_possible = i;
    left -= probabilities[i];
    if (left < 0) return i;
  }
  return last_possible;  // rounding left a crumb
}

// The best top_k tokens, and of these as few as hold top_p of the probability; best first.
std::vector<TokenId> nucleus(const at::Tensor& probabilities, const Sampling& sampling) {
  const auto vocab = probabilities.size(0);
  const std::int64_t most = sampling.top_k > 0 ? std::min<std::int64_t>(sampling.top_k, vocab) : vocab;
  const auto [values, indices] = probabilities.topk(most);
  const auto* value = values.const_data_ptr<float>();
  const auto* index = indices.const_data_ptr<std::int64_t>();
  const double total = values.sum(at::kDouble).item<double>();
  std::vector<TokenId> kept;
  double sum = 0;
  for (std::int64_t i = 0; i < most && (i == 0 || sum < sampling.top_p * total); ++i) {
    kept.push_back(static_cast<TokenId>(index[i]));
    sum += value[i];
  }
  return kept;
}

TopTokens most_likely(const at::Tensor& logp, int count) {
  TopTokens top;
  if (count <= 0) return top;
  const auto [values, indices] = logp.topk(std::min<std::int64_t>(count, logp.size(0)));
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    top.emplace_back(static_cast<TokenId>(indices.const_data_ptr<std::int64_t>()[i]),
                     values.const_data_ptr<float>()[i]);
  }
  return top;
}

Drawn draw_from(const at::Tensor& logp, const Sampling& sampling, std::uint64_t position) {
  const bool greedy = sampling.temperature <= 0;
  const auto* log_probability = logp.const_data_ptr<float>();
  if (greedy) {
    const auto token = static_cast<TokenId>(logp.argmax().item<std::int64_t>());
    return {token, log_probability[token]};
  }
  const double u = uniform(sampling.seed, position);
  const at::Tensor probability = logp.exp();
  if (sampling.top_p >= 1 && sampling.top_k <= 0) {
    const std::span all(probability.const_data_ptr<float>(), static_cast<std::size_t>(probability.numel()));
    const auto token = static_cast<TokenId>(inverse_cdf(all, u));
    return {token, log_probability[token]};
  }
  const std::vector<TokenId> kept = nucleus(probability, sampling);
  std::vector<float> probabilities;
  for (const TokenId token : kept) probabilities.push_back(std::exp(log_probability[token]));
  const std::size_t chosen = inverse_cdf(probabilities, u);
  const double total = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  return {kept[chosen], static_cast<float>(log_probability[kept[chosen]] - std::log(total))};
}

}  // namespace

Drawn draw(const at::Tensor& logits, const Sampling& sampling, std::uint64_t position) {
  const at::Tensor logp = (sampling.temperature <= 0 ? logits : logits / sampling.temperature).log_softmax(0);
  Drawn drawn = draw_from(logp, sampling, position);
  drawn.top = most_likely(logp, sampling.top_logprobs);
  return drawn;
}

}  // namespace millrace
