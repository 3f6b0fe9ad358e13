#include "models/cached_transformer.hpp"

#include <algorithm>
#include <limits>

#include "models/cache_attention.hpp"

namespace millrace {

namespace {

// Additive mask [rows, columns]: row i sees the columns up to last_seen[i].
at::Tensor mask_of(const at::Tensor& last_seen, std::int64_t columns, at::ScalarType dtype) {
  const at::Tensor hides = at::arange(columns, last_seen.options()).unsqueeze(0) > last_seen.unsqueeze(1);
  return at::zeros({last_seen.size(0), columns}, last_seen.options().dtype(dtype))
      .masked_fill_(hides, -std::numeric_limits<float>::infinity());
}

}  // namespace

CachedTransformer::CachedTransformer(SnapshotPtr snapshot, const Compute& compute)
    : snapshot_(std::move(snapshot)), compute_(compute), weights_(weights_of(*snapshot_, compute)) {}

void CachedTransformer::swap(SnapshotPtr snapshot) {
  snapshot_ = std::move(snapshot);
  weights_ = weights_of(*snapshot_, compute_);
}

// Attention of one turn's rows q [rows, heads, head_dim] to its cache. Query heads that share a key-value head stand as
// further rows of it, so that keys and values are not copied for each.
at::Tensor CachedTransformer::attend(const Feed& feed, const at::Tensor& mask, const at::Tensor& q,
                                     std::int64_t layer) const {
  const std::int64_t rows = q.size(0), size = q.size(2), kv = snapshot_->architecture.kv_heads;
  const std::int64_t group = q.size(1) / kv, seen = feed.from + rows;
  const at::Tensor q_rows = q.view({rows, kv, group, size}).permute({1, 2, 0, 3}).reshape({1, kv, group * rows, size});
  return at::scaled_dot_product_attention(q_rows, feed.cache->first(layer, KvCache::Kind::key, seen),
                                          feed.cache->first(layer, KvCache::Kind::value, seen), mask)
      .view({kv, group, rows, size})
      .permute({2, 0, 1, 3})
      .reshape({rows, kv * group * size});
}

void CachedTransformer::feed(std::span<const Feed> feeds) { pass(feeds, Result::nothing); }

at::Tensor CachedTransformer::pass(std::span<const Feed> feeds, Result result) const {
  const Architecture& architecture = snapshot_->architecture;
  const Weights& weights = weights_;
  const std::int64_t group = architecture.heads / architecture.kv_heads;
  std::vector<at::Tensor> tokens, positions, masks;
  std::vector<std::int64_t> sizes;
  for (const Feed& feed : feeds) {
    const auto rows = static_cast<std::int64_t>(feed.tokens.size());
    feed.cache->reserve(feed.from + rows);
    sizes.push_back(rows);
    tokens.push_back(at::tensor(at::ArrayRef<TokenId>(feed.tokens.data(), feed.tokens.size()), at::kInt));
    positions.push_back(at::arange(feed.from, feed.from + rows, at::device(compute_.device).dtype(at::kLong)));
    masks.push_back(mask_of(positions.back(), feed.from + rows, between().dtype).repeat({group, 1}));
  }
  at::Tensor hidden = embed(weights.embedding, at::cat(tokens).to(compute_.device));
  const Rotary rotary = rotary_of(architecture, at::cat(positions));
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer) {
    const Layer& parts = weights.layers[static_cast<std::size_t>(layer)];
    const AttentionInput in = attention_input(architecture, parts, hidden, rotary);
    const auto q = in.q.split_with_sizes(sizes), k = in.k.split_with_sizes(sizes), v = in.v.split_with_sizes(sizes);
    std::vector<at::Tensor> attended;
    for (std::size_t f = 0; f < feeds.size(); ++f) {
      feeds[f].cache->put(layer, KvCache::Kind::key, feeds[f].from, k[f]);
      feeds[f].cache->put(layer, KvCache::Kind::value, feeds[f].from, v[f]);
      if (result == Result::hidden || layer + 1 < architecture.layers)
        attended.push_back(attend(feeds[f], masks[f], q[f], layer));
    }
    if (attended.empty()) return {};  // nobody reads what the last layer puts out
    hidden = layer_output(architecture, parts, hidden, at::cat(attended));
  }
  return rms_norm(hidden, weights.final_norm, architecture.norm_eps);
}

at::Tensor CachedTransformer::next_logits(std::span<const Feed> feeds) {
  const Architecture& architecture = snapshot_->architecture;
  const Weights& weights = weights_;
  if (!compute_.device.is_cpu()) return logits_of(weights, pass(feeds, Result::hidden));
  Tokens tokens;
  CachedTurns turns;
  for (const Feed& feed : feeds) {
    tokens.push_back(feed.tokens.front());
    turns.add(*feed.cache, feed.from);
  }
  at::Tensor hidden = embed(weights.embedding, at::tensor(tokens, at::kInt));
  const Rotary rotary = rotary_of(
      architecture, at::tensor(at::ArrayRef<std::int64_t>(turns.positions().data(), turns.positions().size())));
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer) {
    const Layer& parts = weights.layers[static_cast<std::size_t>(layer)];
    const AttentionInput in = attention_input(architecture, parts, hidden, rotary);
    hidden = layer_output(architecture, parts, hidden, turns.attend(layer, in.q, in.k, in.v));
  }
  return logits_of(weights, rms_norm(hidden, weights.final_norm, architecture.norm_eps));
}

}  // namespace millrace
