#pragma once
// The transformer as a decoder runs it: keys and values of what it has seen stay in a cache, one slot a turn. Either
// many tokens of few slots go in at once (prompts), or one token of every slot, which gives the logits of the next one.
#include <span>

#include "models/kv_cache.hpp"
#include "models/layers.hpp"

namespace millrace {

// Tokens that follow the first `from` ones of a slot.
struct Feed {
  std::int64_t slot = 0;
  std::int64_t from = 0;
  std::span<const TokenId> tokens;
};

class CachedTransformer {
 public:
  // Computes in the given dtype: float32, bfloat16, or kChar for quantised matrices and float32 between them.
  CachedTransformer(SnapshotPtr snapshot, at::ScalarType dtype);

  // Computes the keys and values of all these tokens in one pass.
  void feed(std::span<const Feed> feeds);

  // tokens[i] stands at positions[i] of slot first_slot + i. Returns the logits [slots, vocab] of what follows each.
  at::Tensor next_logits(std::span<const TokenId> tokens, std::span<const std::int64_t> positions,
                         std::int64_t first_slot = 0);

  // Puts the first `count` tokens of one slot into another.
  void copy(std::int64_t from, std::int64_t to, std::int64_t count);

  // What is in the cache stays as the old weights made it.
  void swap(SnapshotPtr snapshot);
  const Snapshot& snapshot() const { return *snapshot_; }

 private:
  at::ScalarType activations() const { return dtype_ == at::kChar ? at::kFloat : dtype_; }
  at::Tensor attend(const Feed& feed, const at::Tensor& mask, const at::Tensor& q, KvCache::Layer& layer) const;

  SnapshotPtr snapshot_;
  at::ScalarType dtype_;
  Weights weights_;  // the snapshot's in that dtype
  KvCache cache_;
};

}  // namespace millrace
