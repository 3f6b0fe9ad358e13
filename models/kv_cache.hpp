#pragma once
// Keys and values of every live turn: [slots, kv_heads, capacity, head_dim] a layer. Slots in use are the first ones;
// room grows by doubling and is kept.
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "models/transformer.hpp"

namespace millrace {

class KvCache {
 public:
  KvCache(const Architecture& architecture, at::ScalarType dtype) : architecture_(architecture), dtype_(dtype) {
    layers_.resize(static_cast<std::size_t>(architecture.layers));
  }

  struct Layer {
    at::Tensor k, v;
  };
  Layer& operator[](std::size_t layer) { return layers_[layer]; }

  // Makes room for so many slots of so many tokens; what is in them stays.
  void reserve(std::int64_t slots, std::int64_t tokens) {
    if (slots <= slots_ && tokens <= capacity_) return;
    const auto doubled = [](std::int64_t now, std::int64_t wanted, std::int64_t least) {
      std::int64_t size = now > 0 ? now : least;
      while (size < wanted) size *= 2;
      return size;
    };
    const std::int64_t new_slots = doubled(slots_, slots, 8);
    const std::int64_t new_capacity = doubled(capacity_, tokens, 64);
    for (Layer& layer : layers_) {
      for (at::Tensor* tensor : {&layer.k, &layer.v}) {
        at::Tensor larger =
            at::zeros({new_slots, architecture_.kv_heads, new_capacity, architecture_.head_dim}, dtype_);
        if (tensor->defined()) larger.narrow(0, 0, slots_).narrow(2, 0, capacity_).copy_(*tensor);
        *tensor = larger;
      }
    }
    slots_ = new_slots;
    capacity_ = new_capacity;
  }

  // The next token of slot first_slot + i, at positions[i]: k and v [slots, kv_heads, head_dim], contiguous.
  void put(std::size_t layer, std::int64_t first_slot, const at::Tensor& k, const at::Tensor& v,
           std::span<const std::int64_t> positions) {
    const std::int64_t heads = architecture_.kv_heads;
    const auto bytes = static_cast<std::int64_t>(c10::elementSize(dtype_)) * architecture_.head_dim;
    for (const auto& [to, from] : {std::pair(&layers_[layer].k, &k), std::pair(&layers_[layer].v, &v)}) {
      auto* cached = static_cast<std::byte*>(to->data_ptr());
      const auto* next = static_cast<const std::byte*>(from->const_data_ptr());
      for (std::int64_t row = 0; row < from->size(0) * heads; ++row) {
        const std::int64_t place =
            (first_slot * heads + row) * capacity_ + positions[static_cast<std::size_t>(row / heads)];
        std::memcpy(cached + place * bytes, next + row * bytes, static_cast<std::size_t>(bytes));
      }
    }
  }

  // Puts the first `tokens` of one slot into another.
  void copy(std::int64_t from, std::int64_t to, std::int64_t tokens) {
    for (Layer& layer : layers_) {
      for (at::Tensor* tensor : {&layer.k, &layer.v}) {
        tensor->select(0, to).narrow(1, 0, tokens).copy_(tensor->select(0, from).narrow(1, 0, tokens));
      }
    }
  }

 private:
  Architecture architecture_;
  at::ScalarType dtype_;
  std::vector<Layer> layers_;
  std::int64_t slots_ = 0;
  std::int64_t capacity_ = 0;
};

}  // namespace millrace
