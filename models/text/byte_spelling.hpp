#pragma once
// GPT-2's spelling of bytes: vocabularies write each of the 256 bytes as one printable character (a space as "Ġ").
// Bytes that are printable in Latin-1 stand for themselves, the others follow from U+0100 on.
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

std::string spell_byte(unsigned char byte);

// The bytes a token's spelling stands for; nothing if a character of it is no byte's spelling.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace millrace
