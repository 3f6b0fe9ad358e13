#pragma once
// Log-probs of given tokens under one policy that does not change: what the policy at the start makes of what the
// policy of today writes.
#include <span>
#include <vector>

#include "models/model.hpp"
#include "models/sequence.hpp"

namespace millrace {

class TokenScorer {
 public:
  explicit TokenScorer(SnapshotPtr weights) : weights_(std::move(weights)) {}
  // [tokens] at the sequence's temperature, in float32; 0 where mask is 0.
  std::vector<float> log_probs(const Sequence& sequence) const;

 private:
  SnapshotPtr weights_;
};

}  // namespace millrace
