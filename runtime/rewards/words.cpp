#include <algorithm>

#include "runtime/rewards/kinds.hpp"

namespace millrace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : lower_case(text)) {
    const bool part = (c >= 'a' && c <= 'z') || c == '\'';
    if (part && !inside) words.emplace_back();
    if (part) words.back() += c;
    inside = part;
  }
  return words;
}

}  // namespace millrace
