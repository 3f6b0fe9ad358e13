#include "models/mini_batches.hpp"

#include <algorithm>

namespace millrace {

void MiniBatches::add(std::span<const Sequence> sequences, std::span<const std::vector<float>> advantages) {
  if (parts_ == 1) {
    learner_.accumulate(sequences, advantages);
    return;
  }
  // The policy does not change before the batch is complete: what it says now is the proximal policy's.
  std::vector<std::vector<float>> proximal = learner_.log_probs(sequences);
  sequences_.insert(sequences_.end(), sequences.begin(), sequences.end());
  advantages_.insert(advantages_.end(), advantages.begin(), advantages.end());
  proximal_.insert(proximal_.end(), proximal.begin(), proximal.end());
}

PolicyStep MiniBatches::step(Version next) {
  if (parts_ == 1) return learner_.step(next);
  PolicyStep whole;
  double norms = 0, steps = 0;
  for (std::size_t part = 0; part < parts_; ++part) {
    const std::size_t begin = sequences_.size() * part / parts_, end = sequences_.size() * (part + 1) / parts_;
    for (std::size_t i = begin; i < end; i += pack_) {
      const std::size_t size = std::min(pack_, end - i);
      learner_.accumulate(std::span(sequences_).subspan(i, size), std::span(advantages_).subspan(i, size),
                          std::span(proximal_).subspan(i, size));
    }
    PolicyStep one = learner_.step(next);
    whole.sums += one.sums;
    if (!one.weights) {
      whole.skipped = one.skipped;
      continue;
    }
    whole.weights = one.weights;
    norms += one.gradient_norm;
    ++steps;
  }
  if (steps > 0) {
    whole.skipped.clear();
    whole.gradient_norm = norms / steps;
  }
  sequences_.clear();
  advantages_.clear();
  proximal_.clear();
  return whole;
}

}  // namespace millrace
