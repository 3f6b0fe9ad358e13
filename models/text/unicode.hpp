#pragma once
// What text needs of Unicode's tables, from utf8proc.
#include <string>
#include <string_view>

namespace millrace {

// Canonical composition (NFC). Bytes that are no UTF-8 stay as they are.
std::string to_nfc(std::string_view text);

bool is_white_space(char32_t code);  // as Python's str.isspace()
bool is_printable(char32_t code);    // as Python's str.isprintable()

// Characters of `text` one by one in the other case, as far as that is one character.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);

}  // namespace millrace
