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
  // Computes in float32, bfloat16, or with kChar in quantised matrices and float32 between them.
  CachedTransformer(SnapshotPtr snapshot, const Compute& compute);

  // Computes the keys and values of all these tokens in one pass.
  void feed(std::span<const Feed> feeds);

  // One token a turn. Returns the logits [feeds, vocab] of what follows each, where it computes.
  at::Tensor next_logits(std::span<const Feed> feeds);

  KvCache empty_cache() const { return {snapshot_->architecture, between()}; }

  // What is in caches stays as the old weights made it.
  void swap(SnapshotPtr snapshot);
  const Snapshot& snapshot() const { return *snapshot_; }

 private:
  Compute between() const { return {compute_.dtype == at::kChar ? at::kFloat : compute_.dtype, compute_.device}; }
  at::Tensor attend(const Feed& feed, const at::Tensor& mask, const at::Tensor& q, std::int64_t layer) const;
  // Puts all these tokens into the caches. Returns their final hidden states, or nothing where nobody wants them.
  enum class Result { nothing, hidden };
  at::Tensor pass(std::span<const Feed> feeds, Result result) const;

  SnapshotPtr snapshot_;
  Compute compute_;
  Weights weights_;  // the snapshot's, as it computes with them
};

}  // namespace millrace
