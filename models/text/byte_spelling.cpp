#include "models/text/byte_spelling.hpp"

#include <array>

namespace millrace {
namespace {

constexpr int spellings = 0x144;  // one more than the last code point in use

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Spellings {
  std::array<int, 256> code_point{};
  std::array<int, spellings> byte{};  // -1: no byte's spelling

  constexpr Spellings() {
    byte.fill(-1);
    int next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const int spelled = stands_for_itself(b) ? b : next++;
      code_point[static_cast<std::size_t>(b)] = spelled;
      byte[static_cast<std::size_t>(spelled)] = b;
    }
  }
};

constexpr Spellings table;

}  // namespace

std::string spell_byte(unsigned char byte) {
  const int code = table.code_point[byte];
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  for (std::size_t i = 0; i < spelling.size(); ++i) {
    unsigned code = static_cast<unsigned char>(spelling[i]);
    if (code >= 0x80) {  // all that is in use is one or two bytes long in UTF-8
      const unsigned follower = i + 1 < spelling.size() ? static_cast<unsigned char>(spelling[i + 1]) : 0;
      if (code < 0xC2 || code > 0xDF || (follower & 0xC0) != 0x80) return std::nullopt;
      code = (code & 0x1F) << 6 | (follower & 0x3F);
      ++i;
    }
    if (code >= spellings || table.byte[code] < 0) return std::nullopt;
    bytes += static_cast<char>(table.byte[code]);
  }
  return bytes;
}

}  // namespace millrace
