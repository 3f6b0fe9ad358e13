#pragma once
// Floats of 16 bits, read out of bytes that need not be aligned.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace millrace {

template <class T>
T load_unaligned(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline float half_to_float(std::uint16_t half) {  // IEEE binary16
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = half >> 10 & 0x1Fu;
  const std::uint32_t mantissa = half & 0x3FFu;
  if (exponent == 0) {  // zero and subnormals: multiples of 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

inline float load_half(const std::byte* from) { return half_to_float(load_unaligned<std::uint16_t>(from)); }

// bfloat16: the upper half of a float.
inline float load_brain(const std::byte* from) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(load_unaligned<std::uint16_t>(from)) << 16);
}

}  // namespace millrace
