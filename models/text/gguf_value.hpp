#pragma once
// A metadata value of a GGUF file. It stays what it is in the file, bytes, until someone asks for an integer or a text:
// so opening a file allocates next to nothing, whatever its counts say.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "models/text/byte_reader.hpp"

namespace millrace {

enum class GgufValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

struct GgufValue {
  GgufValueType type = GgufValueType::u8;  // of the elements, for an array
  bool is_array = false;
  std::uint64_t count = 1;
  std::span<const std::byte> bytes;
};

// Reads the type and the bounds of a value; `field` is what an error names. Arrays of arrays are refused.
GgufValue read_gguf_value(ByteReader& reader, const std::string& field);

// The next value as an integer; nothing if it is none, or beyond 63 bits.
std::optional<std::int64_t> read_integer(ByteReader& reader, GgufValueType type);

}  // namespace millrace
