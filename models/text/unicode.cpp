#include "models/text/unicode.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <utf8proc.h>

#include "models/text/utf8.hpp"

namespace millrace {
namespace {

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

void append_nfc(std::string_view text, std::string& out) {
  utf8proc_uint8_t* composed = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
  if (size < 0)
    out += text;
  else
    out.append(reinterpret_cast<const char*>(composed), static_cast<std::size_t>(size));
}

std::string mapped(std::string_view text, utf8proc_int32_t (*map)(utf8proc_int32_t)) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, size] = character_at(text, at);
    if (size == 1 && code >= 0x80)
      out += text[at];  // no UTF-8
    else
      append_character(static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(code))), out);
    at += size;
  }
  return out;
}

}  // namespace

std::string to_nfc(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  std::string out;
  std::size_t valid_from = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, size] = character_at(text, at);
    if (size == 1 && code >= 0x80) {
      append_nfc(text.substr(valid_from, at - valid_from), out);
      out += text[at];
      valid_from = at + 1;
    }
    at += size;
  }
  append_nfc(text.substr(valid_from), out);
  return out;
}

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r') || (code >= 0x1C && code <= 0x1F);
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return code == 0x85 || category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool is_printable(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return code == ' ';
    default: return true;
  }
}

std::string to_upper(std::string_view text) { return mapped(text, utf8proc_toupper); }
std::string to_lower(std::string_view text) { return mapped(text, utf8proc_tolower); }

}  // namespace millrace
