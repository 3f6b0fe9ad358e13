#include "models/cached_transformer.hpp"

#include <algorithm>
#include <limits>

#include "models/cache_attention.hpp"

namespace millrace {

namespace {

// Additive mask [rows, columns]: row i sees the columns up to last_seen[i].
at::Tensor mask_of(const at::Tensor& last_seen, std::int64_t columns, at::ScalarType dtype) {
  const at::Tensor hides = at::arange(columns, at::kLong).unsqueeze(0) > last_seen.unsqueeze(1);
  return at::zeros({last_seen.size(0), columns}, dtype).masked_fill_(hides, -std::numeric_limits<float>::infinity());
}

}  // namespace

CachedTransformer::CachedTransformer(SnapshotPtr snapshot, at::ScalarType dtype)
    : snapshot_(std::move(snapshot)),
      dtype_(dtype),
      weights_(weights_of(*snapshot_, dtype)),
      cache_(snapshot_->architecture, activations()) {}

void CachedTransformer::swap(SnapshotPtr snapshot) {
  snapshot_ = std::move(snapshot);
  weights_ = weights_of(*snapshot_, dtype_);
}

// Attention of one slot's rows q [rows, heads, head_dim] to its cache. Query heads that share a key-value head stand as
// further rows of it, so that keys and values are not copied.
at::Tensor CachedTransformer::attend(const Feed& feed, const at::Tensor& mask, const at::Tensor& q,
                                     KvCache::Layer& layer) const {
  const std::int64_t rows = q.size(0), size = q.size(2), kv = snapshot_->architecture.kv_heads;
  const std::int64_t group = q.size(1) / kv;
  const auto seen = [&](const at::Tensor& cached) {
    return cached.narrow(0, feed.slot, 1).narrow(2, 0, feed.from + rows);
  };
  const at::Tensor q_rows = q.view({rows, kv, group, size}).permute({1, 2, 0, 3}).reshape({1, kv, group * rows, size});
  return at::scaled_dot_product_attention(q_rows, seen(layer.k), seen(layer.v), mask)
      .view({kv, group, rows, size})
      .permute({2, 0, 1, 3})
      .reshape({rows, kv * group * size});
}

void CachedTransformer::feed(std::span<const Feed> feeds) {
  const Architecture& architecture = snapshot_->architecture;
  const Weights& weights = weights_;
  const std::int64_t group = architecture.heads / architecture.kv_heads;
  std::vector<at::Tensor> tokens, positions, masks;
  std::vector<std::int64_t> sizes;
  for (const Feed& feed : feeds) {
    const auto rows = static_cast<std::int64_t>(feed.tokens.size());
    cache_.reserve(feed.slot + 1, feed.from + rows);
    sizes.push_back(rows);
    tokens.push_back(at::tensor(at::ArrayRef<TokenId>(feed.tokens.data(), feed.tokens.size()), at::kInt));
    positions.push_back(at::arange(feed.from, feed.from + rows, at::kLong));
    masks.push_back(mask_of(positions.back(), feed.from + rows, activations()).repeat({group, 1}));
  }
  at::Tensor hidden = embed(weights.embedding, at::cat(tokens));
  const Rotary rotary = rotary_of(architecture, at::cat(positions));
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const AttentionInput in = attention_input(architecture, weights.layers[i], hidden, rotary);
    const auto q = in.q.split_with_sizes(sizes), k = in.k.split_with_sizes(sizes), v = in.v.split_with_sizes(sizes);
    std::vector<at::Tensor> attended;
    for (std::size_t f = 0; f < feeds.size(); ++f) {
      const auto room = [&](const at::Tensor& cached) {
        return cached.select(0, feeds[f].slot).narrow(1, feeds[f].from, sizes[f]);
      };
      room(cache_[i].k).copy_(k[f].transpose(0, 1));
      room(cache_[i].v).copy_(v[f].transpose(0, 1));
      if (i + 1 < weights.layers.size()) attended.push_back(attend(feeds[f], masks[f], q[f], cache_[i]));
    }
    if (attended.empty()) break;  // nobody reads what the last layer puts out
    hidden = layer_output(architecture, weights.layers[i], hidden, at::cat(attended));
  }
}

void CachedTransformer::copy(std::int64_t from, std::int64_t to, std::int64_t count) {
  cache_.reserve(to + 1, count);
  cache_.copy(from, to, count);
}

at::Tensor CachedTransformer::next_logits(std::span<const TokenId> tokens, std::span<const std::int64_t> positions,
                                          std::int64_t first_slot) {
  const Architecture& architecture = snapshot_->architecture;
  const Weights& weights = weights_;
  const auto count = static_cast<std::int64_t>(tokens.size());
  const std::int64_t longest = *std::max_element(positions.begin(), positions.end()) + 1;
  cache_.reserve(first_slot + count, longest);
  at::Tensor hidden =
      embed(weights.embedding, at::tensor(at::ArrayRef<TokenId>(tokens.data(), tokens.size()), at::kInt));
  const Rotary rotary =
      rotary_of(architecture, at::tensor(at::ArrayRef<std::int64_t>(positions.data(), positions.size())));
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const AttentionInput in = attention_input(architecture, weights.layers[i], hidden, rotary);
    cache_.put(i, first_slot, in.k, in.v, positions);
    const KvCache::Layer of_slots{cache_[i].k.narrow(0, first_slot, count), cache_[i].v.narrow(0, first_slot, count)};
    hidden = layer_output(architecture, weights.layers[i], hidden, attend_to_cache(in.q, of_slots, positions));
  }
  return logits_of(weights, rms_norm(hidden, weights.final_norm, architecture.norm_eps));
}

}  // namespace millrace
