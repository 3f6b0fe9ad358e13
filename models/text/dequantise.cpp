// Block formats as in llama.cpp's ggml-common.h: 32 values a block, led by a float16 scale.
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "models/text/gguf.hpp"

namespace millrace {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);  // the mapped data need not be aligned
  return value;
}

float half_to_float(std::uint16_t half) {
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

float load_half(const std::byte* from) { return half_to_float(load<std::uint16_t>(from)); }

constexpr std::size_t block = 32;

// scale, 32 signed bytes: scale * q
void q8_0(const std::byte* from, float* out) {
  const float scale = load_half(from);
  const auto quants = load<std::array<std::int8_t, block>>(from + 2);
  for (std::size_t i = 0; i < block; ++i) out[i] = scale * static_cast<float>(quants[i]);
}

// scale, 32 nibbles: scale * (q - 8). Byte i holds value i in its low half and value i + 16 in its high half.
void q4_0(const std::byte* from, float* out) {
  const float scale = load_half(from);
  const auto quants = load<std::array<std::uint8_t, block / 2>>(from + 2);
  for (std::size_t i = 0; i < block / 2; ++i) {
    out[i] = scale * static_cast<float>((quants[i] & 0xF) - 8);
    out[i + block / 2] = scale * static_cast<float>((quants[i] >> 4) - 8);
  }
}

// scale, minimum, 32 nibbles: scale * q + minimum
void q4_1(const std::byte* from, float* out) {
  const float scale = load_half(from);
  const float minimum = load_half(from + 2);
  const auto quants = load<std::array<std::uint8_t, block / 2>>(from + 4);
  for (std::size_t i = 0; i < block / 2; ++i) {
    out[i] = scale * static_cast<float>(quants[i] & 0xF) + minimum;
    out[i + block / 2] = scale * static_cast<float>(quants[i] >> 4) + minimum;
  }
}

template <std::size_t block_bytes, class DequantiseBlock>
void each_block(std::span<const std::byte> data, float* out, DequantiseBlock dequantise_block) {
  for (std::size_t at = 0; at < data.size(); at += block_bytes, out += block) dequantise_block(data.data() + at, out);
}

}  // namespace

void dequantise(const GgufTensor& tensor, std::span<float> out) {
  std::size_t elements = 1;
  for (const std::int64_t dimension : tensor.shape) elements *= static_cast<std::size_t>(dimension);
  if (out.size() != elements) throw std::invalid_argument("dequantise: wrong size of output for " + tensor.name);
  switch (tensor.type) {
    case GgufType::f32: std::memcpy(out.data(), tensor.data.data(), tensor.data.size()); return;
    case GgufType::f16:
      for (std::size_t i = 0; i < elements; ++i) out[i] = load_half(tensor.data.data() + 2 * i);
      return;
    case GgufType::q4_0: each_block<18>(tensor.data, out.data(), q4_0); return;
    case GgufType::q4_1: each_block<20>(tensor.data, out.data(), q4_1); return;
    case GgufType::q8_0: each_block<34>(tensor.data, out.data(), q8_0); return;
  }
}

}  // namespace millrace
