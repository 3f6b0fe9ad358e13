#pragma once
// Attention of a decode step: one new token a slot, to what the slot's cache holds. General attention is made for many
// rows and one length; here every slot has its own length and one row.
#include <span>

#include <ATen/ATen.h>

#include "models/kv_cache.hpp"

namespace millrace {

// Slot i's token stands at positions[i]. q [slots, heads, head_dim], all of the cache's dtype and contiguous. Returns
// [slots, heads * head_dim] of that dtype; sums are float32.
at::Tensor attend_to_cache(const at::Tensor& q, const KvCache::Layer& cache, std::span<const std::int64_t> positions);

}  // namespace millrace
