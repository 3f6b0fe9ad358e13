#pragma once
// Keys and values of one turn, in pages of 32 tokens. A page that is full never changes again, so that turns that begin
// alike hold it together; memory is for tokens there are, wherever a turn may still go.
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "models/transformer.hpp"

namespace millrace {

class KvCache {
 public:
  static constexpr std::int64_t page_tokens = 32;
  enum class Kind { key, value };

  KvCache(const Architecture& architecture, const Compute& compute)
      : page_shape_{architecture.layers, 2, architecture.kv_heads, page_tokens, architecture.head_dim},
        compute_(compute) {}

  // Makes room for so many tokens; what is there stays.
  void reserve(std::int64_t tokens) {
    while (std::ssize(pages_) * page_tokens < tokens)
      pages_.push_back(at::empty(page_shape_, at::device(compute_.device).dtype(compute_.dtype)));
  }

  // Begins anew with another's first `tokens`: full pages are held together, the rest is copied.
  void begin_like(const KvCache& other, std::int64_t tokens) {
    const std::int64_t full = tokens / page_tokens, rest = tokens % page_tokens;
    pages_.assign(other.pages_.begin(), other.pages_.begin() + full);
    if (rest == 0) return;
    reserve(tokens);
    const auto rest_of = [&](const KvCache& cache) {
      return cache.pages_[static_cast<std::size_t>(full)].narrow(3, 0, rest);
    };
    rest_of(*this).copy_(rest_of(other));
  }

  void clear() { pages_.clear(); }

  // Puts the keys or values [tokens, kv_heads, head_dim] behind the first `from` ones of a layer; there must be room.
  void put(std::int64_t layer, Kind kind, std::int64_t from, const at::Tensor& rows) {
    for (std::int64_t done = 0; done < rows.size(0);) {
      const std::int64_t in_page = (from + done) % page_tokens;
      const std::int64_t count = std::min(rows.size(0) - done, page_tokens - in_page);
      of_page((from + done) / page_tokens, layer, kind)
          .narrow(1, in_page, count)
          .copy_(rows.narrow(0, done, count).transpose(0, 1));
      done += count;
    }
  }

  // The first `tokens` of a layer in one piece: [1, kv_heads, tokens, head_dim].
  at::Tensor first(std::int64_t layer, Kind kind, std::int64_t tokens) const {
    std::vector<at::Tensor> parts;
    for (std::int64_t from = 0; from < tokens; from += page_tokens) {
      parts.push_back(of_page(from / page_tokens, layer, kind).narrow(1, 0, std::min(tokens - from, page_tokens)));
    }
    return at::cat(parts, 1).unsqueeze(0);
  }

  // Each [layers, key and value, kv_heads, page_tokens, head_dim].
  std::span<const at::Tensor> pages() const { return pages_; }

 private:
  at::Tensor of_page(std::int64_t page, std::int64_t layer, Kind kind) const {
    return pages_[static_cast<std::size_t>(page)].select(0, layer).select(0, kind == Kind::key ? 0 : 1);
  }

  std::vector<std::int64_t> page_shape_;
  Compute compute_;
  std::vector<at::Tensor> pages_;
};

}  // namespace millrace
