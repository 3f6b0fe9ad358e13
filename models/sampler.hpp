#pragma once
// Draws one token a row and says how probable it was in the very distribution it was drawn from.
#include <cstdint>

#include <ATen/ATen.h>

#include "models/decoder.hpp"

namespace millrace {

struct Drawn {
  TokenId token = 0;
  float logp = 0;
  TopTokens top = {};  // as many as the sampling asks for
};

// logits: [vocab] float32. `position` counts the tokens of the turn: with the seed it is all the chance there is, so a
// turn does not depend on what else is in the batch. Temperature 0 is greedy, its log-prob that at temperature 1.
Drawn draw(const at::Tensor& logits, const Sampling& sampling, std::uint64_t position);

}  // namespace millrace
