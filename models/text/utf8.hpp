#pragma once
// The few things about UTF-8 that text needs: cutting bytes into whole characters, with U+FFFD for what is none.
// Each longest run of bytes that begins a character but cannot go on becomes one U+FFFD (Unicode 15, section 3.9).
#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

// Appends the characters of `bytes` to `text` and returns how many bytes that used. What is left, at most three bytes,
// is the beginning of a character whose end is still to come.
std::size_t append_characters(std::string_view bytes, std::string& text);

// The character that begins at `at`, which must lie inside. A byte that begins none is a character of its own: size 1,
// the byte as its code.
struct CodePoint {
  char32_t code;
  std::size_t size;  // bytes
};
CodePoint character_at(std::string_view bytes, std::size_t at);

void append_character(char32_t code, std::string& text);

// All of `bytes` as valid UTF-8: an unfinished character at the end becomes one U+FFFD, too.
std::string to_valid_utf8(std::string_view bytes);

// A name out of a file, fit for an error text: in quotes, valid UTF-8, cut after 64 bytes.
std::string in_quotes(std::string_view name);

}  // namespace millrace
