#pragma once
// Attention of a decode step: one new token a turn, to what the turn's cache holds. General attention is made for many
// rows and one length; here every turn has its own length and one row.
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "models/kv_cache.hpp"

namespace millrace {

// Where the caches of several turns lie in memory, and where in each of them its next token stands.
class CachedTurns {
 public:
  // Makes room for the token. The caches must outlive this.
  void add(KvCache& cache, std::int64_t position);

  std::span<const std::int64_t> positions() const { return positions_; }

  // Puts the tokens' keys and values [turns, kv_heads, head_dim] into a layer's caches and attends to all that is there
  // with q [turns, heads, head_dim]; all contiguous and of the caches' dtype. Returns [turns, heads * head_dim] of that
  // dtype; sums are float32.
  at::Tensor attend(std::int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const;

 private:
  template <class T>
  void attend_as(std::int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 at::Tensor& out) const;

  std::vector<void*> pages_;             // of all turns, one after another
  std::vector<std::size_t> first_page_;  // [turns]
  std::vector<std::int64_t> positions_;  // [turns]
};

}  // namespace millrace
