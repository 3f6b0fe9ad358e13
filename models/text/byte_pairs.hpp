#pragma once
// The merge step of byte-pair encoding: neighbours that a rule knows become one token, the best rule first.
// Takes O(n log n) for a piece of n bytes, so that a megabyte without a space does not hang a server.
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "models/text/tokens.hpp"

namespace millrace {

class BytePairs {
 public:
  // Rules are added best first; of two for the same pair the first one counts.
  void add(TokenId left, TokenId right, TokenId merged);

  // Appends to `tokens` what `symbols`, one token a byte and -1 for a byte without one, merge to. The -1 are left out.
  void merge(const Tokens& symbols, Tokens& tokens) const;

 private:
  struct Rule {
    std::uint32_t rank;  // 0 is the best
    TokenId merged;
  };
  const Rule* find(TokenId left, TokenId right) const;

  std::unordered_map<std::uint64_t, Rule> rules_;
};

}  // namespace millrace
