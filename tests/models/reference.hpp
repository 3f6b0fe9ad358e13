#pragma once
// What a learner computes for given tokens: the numbers that a decoder's must equal.
#include <vector>

#include "tests/torch_doctest.hpp"

#include "models/transformer.hpp"

namespace millrace::testing {

inline Sequence plain_sequence(const Tokens& tokens) {
  Sequence sequence;
  sequence.tokens = tokens;
  sequence.mask.assign(tokens.size(), 0);
  return sequence;
}

// Logits [tokens, vocab] after each token.
inline at::Tensor learner_logits(const Snapshot& snapshot, const Tokens& tokens) {
  const Pack pack = make_pack(std::vector{plain_sequence(tokens)});
  return logits_of(snapshot.weights, hidden_states(snapshot.architecture, snapshot.weights, pack));
}

// Log-probs of tokens[prompt], tokens[prompt + 1], ... given what stands before each.
inline std::vector<float> learner_logp(const Snapshot& snapshot, const Tokens& tokens, std::size_t prompt,
                                       double temperature = 1.0) {
  const at::Tensor logp = (learner_logits(snapshot, tokens) / temperature).log_softmax(1);
  std::vector<float> result;
  for (std::size_t t = prompt; t < tokens.size(); ++t) {
    result.push_back(logp[static_cast<std::int64_t>(t) - 1][tokens[t]].item<float>());
  }
  return result;
}

// The largest distance between two lists of the same length.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  return largest;
}

}  // namespace millrace::testing
