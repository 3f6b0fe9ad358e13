#pragma once
// Keys and values of every live turn: [slots, kv_heads, capacity, head_dim] a layer. Slots in use are the first ones;
// room grows by doubling and is kept.
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
