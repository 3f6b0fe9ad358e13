#pragma once
// The transformer as a decoder runs it: keys and values of what it has seen stay in a cache, one a turn. Either many
// tokens of few turns go in at once (prompts), or one token of every turn, which gives the logits of the next one.
#include <span>

#include "models/kv_cache.hpp"
#include "models/layers.hpp"

namespace millrace {

// Tokens that follow the first `from` ones of a turn.
struct Feed {
  KvCache* cache = nullptr;
  std::int64_t from = 0;
  std::span<const TokenId> tokens;
};

class CachedTransformer {
 public:
  // Computes in the given dtype: float32, bfloat16, or kChar for quantised matrices and float32 between them.
  CachedTransformer(SnapshotPtr snapshot, at::ScalarType dtype);

  // Computes the keys and values of all these tokens in one pass.
  void feed(std::span<const Feed> feeds);

  // One token a turn. Returns the logits [feeds, vocab] of what follows each.
  at::Tensor next_logits(std::span<const Feed> feeds);

  KvCache empty_cache() const { return {snapshot_->architecture, activations()}; }

  // What is in caches stays as the old weights made it.
  void swap(SnapshotPtr snapshot);
  const Snapshot& snapshot() const { return *snapshot_; }

 private:
  at::ScalarType activations() const { return dtype_ == at::kChar ? at::kFloat : dtype_; }
  at::Tensor attend(const Feed& feed, const at::Tensor& mask, const at::Tensor& q, std::int64_t layer) const;

  SnapshotPtr snapshot_;
  at::ScalarType dtype_;
  Weights weights_;  // the snapshot's in that dtype
};

}  // namespace millrace
