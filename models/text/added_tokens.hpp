#pragma once
// Tokens that stand for a text as a whole, whatever the merges would make of it: <|im_start|>, <think>.
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/text/tokens.hpp"

namespace millrace {

struct AddedToken {
  std::string spelling;
  TokenId token;
  bool control;  // only the template's own text may write it
  bool eats_space_before;
  bool eats_space_after;
};

class AddedTokens {
 public:
  void add(AddedToken token);

  struct Match {
    std::size_t begin, end;
    TokenId token;
  };
  // The first one from `from` on; of two at the same place the longer one. `marks` as in MarkedText.
  std::optional<Match> find(std::string_view text, std::string_view marks, std::size_t from) const;

 private:
  std::array<std::vector<AddedToken>, 256> by_first_byte_;  // longest spelling first
};

}  // namespace millrace
