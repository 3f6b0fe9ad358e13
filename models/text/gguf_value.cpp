#include "models/text/gguf_value.hpp"

#include <utility>

namespace millrace {
namespace {

// Bytes a value takes at least: exactly these, but for a text, which begins with its length.
std::size_t least_size(GgufValueType type) {
  using enum GgufValueType;
  switch (type) {
    case u8:
    case i8:
    case boolean: return 1;
    case u16:
    case i16: return 2;
    case u32:
    case i32:
    case f32: return 4;
    default: return 8;
  }
}

}  // namespace

GgufValue read_gguf_value(ByteReader& reader, const std::string& field) {
  GgufValue value;
  value.type = reader.number<GgufValueType>(field);
  if (value.type == GgufValueType::array) {
    value.is_array = true;
    value.type = reader.number<GgufValueType>(field);
    value.count = reader.number<std::uint64_t>(field);
  }
  if (value.type > GgufValueType::f64 || value.type == GgufValueType::array) {
    reader.fail(field, "is of type " + std::to_string(static_cast<std::uint32_t>(value.type)) +
                           ", known are 0 to 12, and arrays of them but for arrays");
  }
  reader.check_count(value.count, least_size(value.type), field);
  if (reader.error()) return value;

  const std::size_t begin = reader.position();
  if (value.type == GgufValueType::text) {
    for (std::uint64_t i = 0; i < value.count && !reader.error(); ++i) reader.text(field);
  } else {
    reader.take(value.count * least_size(value.type), field);
  }
  value.bytes = reader.since(begin);
  return value;
}

std::optional<std::int64_t> read_integer(ByteReader& reader, GgufValueType type) {
  using enum GgufValueType;
  const std::string_view field = "integer";
  switch (type) {
    case u8: return reader.number<std::uint8_t>(field);
    case i8: return reader.number<std::int8_t>(field);
    case u16: return reader.number<std::uint16_t>(field);
    case i16: return reader.number<std::int16_t>(field);
    case u32: return reader.number<std::uint32_t>(field);
    case i32: return reader.number<std::int32_t>(field);
    case i64: return reader.number<std::int64_t>(field);
    case u64: {
      const auto value = reader.number<std::uint64_t>(field);
      return std::in_range<std::int64_t>(value) ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt;
    }
    default: return std::nullopt;
  }
}

}  // namespace millrace
