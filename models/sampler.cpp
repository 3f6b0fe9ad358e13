#include "models/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "models/kernels.hpp"

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

// The index at which the running sum of the weights passes `left`.
std::size_t index_at(std::span<const float> weights, double left) {
  std::size_t last_possible = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last_possible = i;
    left -= weights[i];
    if (left < 0) return i;
  }
  return last_possible;  // rounding left a crumb
}

// exp((logit - the largest) / temperature) of every token, summed up in pieces: a draw needs no more than these sums
// and one piece, so that a row is read twice and nothing of its length is written.
class Distribution {
 public:
  Distribution(const at::Tensor& logits, double temperature)
      : logits_(logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.numel())),
        inverse_(static_cast<float>(1 / temperature)),
        sums_((logits_.size() + piece - 1) / piece) {
    const auto size = static_cast<std::int64_t>(sums_.size());
    kernels::over_rows(
        size, piece, [this](std::int64_t i) __attribute__((always_inline)) {
          const std::span<const float> part = piece_of(static_cast<std::size_t>(i));
          float largest = part.front();
#pragma omp simd reduction(max : largest)
          for (std::size_t t = 0; t < part.size(); ++t) largest = std::max(largest, part[t]);
          sums_[static_cast<std::size_t>(i)] = largest;
        });
    largest_ = *std::max_element(sums_.begin(), sums_.end());
    kernels::over_rows(
        size, piece, [this](std::int64_t i) __attribute__((always_inline)) {
          const std::span<const float> part = piece_of(static_cast<std::size_t>(i));
          const float inverse = inverse_, largest = largest_;
          float sum = 0;
#pragma omp simd reduction(+ : sum)
          for (std::size_t t = 0; t < part.size(); ++t) sum += weight(part[t], largest, inverse);
          sums_[static_cast<std::size_t>(i)] = sum;
        });
    total_ = std::accumulate(sums_.begin(), sums_.end(), 0.0);
  }

  float logp(std::size_t token) const {
    return (logits_[token] - largest_) * inverse_ - static_cast<float>(std::log(total_));
  }
  TokenId best() const {
    return static_cast<TokenId>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin());
  }
  // The token at which the running sum passes u times the total.
  TokenId at(double u) const {
    double left = u * total_;
    std::size_t i = 0;
    while (i + 1 < sums_.size() && left >= sums_[i]) left -= sums_[i++];
    while (i > 0 && sums_[i] == 0) --i;  // rounding has left a crumb behind the last token that can be
    const std::span<const float> part = piece_of(i);
    std::vector<float> weights;
    for (const float logit : part) weights.push_back(weight(logit, largest_, inverse_));
    return static_cast<TokenId>(i * piece + index_at(weights, left));
  }

 private:
  static constexpr std::size_t piece = 512;  // tokens
  static float weight(float logit, float largest, float inverse) {
    const float exponent = (logit - largest) * inverse;
    return exponent < -87.0f ? 0.0f : kernels::exponential(exponent);  // which takes no less
  }
  std::span<const float> piece_of(std::size_t i) const {
    return logits_.subspan(i * piece, std::min(piece, logits_.size() - i * piece));
  }

  std::span<const float> logits_;
  float inverse_, largest_ = 0;
  std::vector<float> sums_;  // of the pieces
  double total_ = 0;
};

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
  const auto [values, indices] = logp.topk(std::min<std::int64_t>(count, logp.size(0)));
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    top.emplace_back(static_cast<TokenId>(indices.const_data_ptr<std::int64_t>()[i]),
                     values.const_data_ptr<float>()[i]);
  }
  return top;
}

Drawn draw_from(const at::Tensor& logits, const Sampling& sampling, std::uint64_t position) {
  const bool greedy = sampling.temperature <= 0;
  const double u = uniform(sampling.seed, position);
  if (greedy || (sampling.top_p >= 1 && sampling.top_k <= 0)) {
    const Distribution all(logits, greedy ? 1.0 : sampling.temperature);
    const TokenId token = greedy ? all.best() : all.at(u);
    return {token, all.logp(static_cast<std::size_t>(token))};
  }
  const at::Tensor logp = (logits / sampling.temperature).log_softmax(0);
  const auto* log_probability = logp.const_data_ptr<float>();
  const std::vector<TokenId> kept = nucleus(logp.exp(), sampling);
  std::vector<float> probabilities;
  for (const TokenId token : kept) probabilities.push_back(std::exp(log_probability[token]));
  const double total = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  const std::size_t chosen = index_at(probabilities, u * total);
  return {kept[chosen], static_cast<float>(log_probability[kept[chosen]] - std::log(total))};
}

}  // namespace

Drawn draw(const at::Tensor& logits, const Sampling& sampling, std::uint64_t position) {
  Drawn drawn = draw_from(logits, sampling, position);
  if (sampling.top_logprobs > 0) {
    const double temperature = sampling.temperature <= 0 ? 1.0 : sampling.temperature;
    drawn.top = most_likely((logits / temperature).log_softmax(0), sampling.top_logprobs);
  }
  return drawn;
}

}  // namespace millrace
