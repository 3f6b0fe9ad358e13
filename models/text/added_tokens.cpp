#include "models/text/added_tokens.hpp"

#include <algorithm>

#include "models/text/marked_text.hpp"
#include "models/text/unicode.hpp"
#include "models/text/utf8.hpp"

namespace millrace {
namespace {

bool is_trusted(std::string_view marks) {
  return marks.find_first_not_of(MarkedText::trusted) == std::string_view::npos;
}

// As `tokenizers` (Rust) has it, which does without Python's four separators.
bool is_space(char32_t code) { return is_white_space(code) && (code < 0x1C || code > 0x1F); }

std::size_t skip_spaces(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(character_at(text, at).code)) at += character_at(text, at).size;
  return at;
}

// Where the white space that ends at `end` begins, not before `least`.
std::size_t skip_spaces_back(std::string_view text, std::size_t end, std::size_t least) {
  while (end > least) {
    std::size_t begin = end - 1;
    while (begin > least && (text[begin] & 0xC0) == 0x80) --begin;
    if (!is_space(character_at(text, begin).code)) break;
    end = begin;
  }
  return end;
}

}  // namespace

void AddedTokens::add(AddedToken token) {
  auto& same = by_first_byte_[static_cast<unsigned char>(token.spelling.front())];
  const auto shorter =
      std::ranges::find_if(same, [&](const auto& t) { return t.spelling.size() < token.spelling.size(); });
  same.insert(shorter, std::move(token));
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, std::string_view marks,
                                                    std::size_t from) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    for (const AddedToken& token : by_first_byte_[static_cast<unsigned char>(text[at])]) {
      const std::size_t size = token.spelling.size();
      if (text.compare(at, size, token.spelling) != 0) continue;
      if (token.control && !is_trusted(marks.substr(at, size))) continue;
      return Match{token.eats_space_before ? skip_spaces_back(text, at, from) : at,
                   token.eats_space_after ? skip_spaces(text, at + size) : at + size, token.token};
    }
  }
  return std::nullopt;
}

}  // namespace millrace
