#include "models/text/utf8.hpp"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

enum class Kind { whole, broken, unfinished };

struct Character {
  Kind kind;
  std::size_t size;  // bytes
};

// What a lead byte asks for: how many bytes follow it, and the range of the first of them, which keeps out overlong
// forms, surrogates and what lies beyond U+10FFFF (Unicode 15, table 3-7).
struct Lead {
  std::size_t followers;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
};

constexpr bool is_lead(unsigned char byte) { return byte < 0x80 || (byte >= 0xC2 && byte <= 0xF4); }

constexpr Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {0};
  if (byte < 0xE0) return {1};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte < 0xF0) return {2};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {3};
}

Character first_character(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if (!is_lead(byte(0))) return {Kind::broken, 1};
  const Lead lead = lead_of(byte(0));
  for (std::size_t i = 1; i <= lead.followers; ++i) {
    if (i == bytes.size()) return {Kind::unfinished, i};
    const auto [low, high] =
        i == 1 ? std::pair(lead.low, lead.high) : std::pair<unsigned char, unsigned char>(0x80, 0xBF);
    if (byte(i) < low || byte(i) > high) return {Kind::broken, i};
  }
  return {Kind::whole, lead.followers + 1};
}

}  // namespace

std::size_t append_characters(std::string_view bytes, std::string& text) {
  std::size_t used = 0;
  while (true) {
    // Most of it is ASCII, in long runs.
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(used);
    const auto end = std::find_if(begin, bytes.end(), [](char byte) { return (byte & 0x80) != 0; });
    text.append(begin, end);
    used = static_cast<std::size_t>(end - bytes.begin());
    if (used == bytes.size()) return used;
    const auto [kind, size] = first_character(bytes.substr(used));
    if (kind == Kind::unfinished) return used;
    text += kind == Kind::whole ? bytes.substr(used, size) : replacement_character;
    used += size;
  }
}

CodePoint character_at(std::string_view bytes, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[at + i]); };
  const auto [kind, size] = first_character(bytes.substr(at));
  if (kind != Kind::whole) return {byte(0), 1};
  if (size == 1) return {byte(0), 1};
  char32_t code = byte(0) & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) code = code << 6 | (byte(i) & 0x3Fu);
  return {code, size};
}

void append_character(char32_t code, std::string& text) {
  const auto follower = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    follower(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    follower(6);
    follower(0);
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    follower(12);
    follower(6);
    follower(0);
  }
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string text;
  if (append_characters(bytes, text) < bytes.size()) text += replacement_character;
  return text;
}

std::string in_quotes(std::string_view name) {
  constexpr std::size_t longest = 64;
  return '"' + to_valid_utf8(name.substr(0, longest)) + (name.size() > longest ? "...\"" : "\"");
}

}  // namespace millrace
