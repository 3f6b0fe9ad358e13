#pragma once
// Action tokens of a pack as tensors with one entry each, in the order of the sequences and of their text. What is an
// action is said by the mask alone, never by a token's id.
#include <cstddef>
#include <span>
#include <stdexcept>
#include <vector>

#include <ATen/ATen.h>

#include "models/sequence.hpp"

namespace millrace {

inline std::size_t action_count(const Sequence& sequence) {
  std::size_t count = 0;
  for (const auto is_action : sequence.mask) count += is_action ? 1u : 0u;
  return count;
}

// A sequence that breaks its contract is a bug of the caller and throws.
inline void check_shape(const Sequence& sequence) {
  const std::size_t length = sequence.tokens.size();
  if (sequence.mask.size() != length || sequence.behaviour.size() != length || sequence.rewards.size() != length) {
    throw std::invalid_argument("Sequence: its vectors differ in length");
  }
  if (length > 0 && sequence.mask[0]) throw std::invalid_argument("Sequence: nothing precedes the first action");
}

// [action tokens] on that device: what entry(i, t) says of token t of sequence i.
template <class T, class Entry>
at::Tensor per_action(std::span<const Sequence> sequences, at::Device device, Entry entry) {
  std::vector<T> entries;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    for (std::size_t t = 0; t < sequences[i].mask.size(); ++t) {
      if (sequences[i].mask[t]) entries.push_back(entry(i, t));
    }
  }
  return at::tensor(at::ArrayRef<T>(entries)).to(device);
}

}  // namespace millrace
