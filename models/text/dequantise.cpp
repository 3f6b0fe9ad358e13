// Block formats as in llama.cpp's ggml-common.h: 32 values a block, led by a float16 scale; 256 in the K formats, cut
// into parts whose own scales are integers.
#include <array>
#include <cstring>
#include <stdexcept>

#include "models/text/gguf.hpp"
#include "models/text/half.hpp"

namespace millrace {
namespace {

constexpr std::size_t block = 32;

// scale, 32 signed bytes: scale * q
void q8_0(const std::byte* from, float* out) {
  const float scale = load_half(from);
  const auto quants = load_unaligned<std::array<std::int8_t, block>>(from + 2);
  for (std::size_t i = 0; i < block; ++i) out[i] = scale * static_cast<float>(quants[i]);
}

// scale, 32 nibbles: scale * (q - 8). Byte i holds value i in its low half and value i + 16 in its high half.
void q4_0(const std::byte* from, float* out) {
  const float scale = load_half(from);
  const auto quants = load_unaligned<std::array<std::uint8_t, block / 2>>(from + 2);
  for (std::size_t i = 0; i < block / 2; ++i) {
    out[i] = scale * static_cast<float>((quants[i] & 0xF) - 8);
    out[i + block / 2] = scale * static_cast<float>((quants[i] >> 4) - 8);
  }
}

// scale, minimum, 32 nibbles: scale * q + minimum
void q4_1(const std::byte* from, float* out) {
  const float scale = load_half(from);
  const float minimum = load_half(from + 2);
  const auto quants = load_unaligned<std::array<std::uint8_t, block / 2>>(from + 4);
  for (std::size_t i = 0; i < block / 2; ++i) {
    out[i] = scale * static_cast<float>(quants[i] & 0xF) + minimum;
    out[i + block / 2] = scale * static_cast<float>(quants[i] >> 4) + minimum;
  }
}

constexpr std::size_t super_block = 256;

// scale and minimum, eight pairs of 6-bit scales and minimums, 256 nibbles: for each 32 values
// scale * their scale * q - minimum * their minimum. 64 values share 32 bytes: the low halves come first.
void q4_k(const std::byte* from, float* out) {
  const float scale = load_half(from), minimum = load_half(from + 2);
  const auto packed = load_unaligned<std::array<std::uint8_t, 12>>(from + 4);
  const auto quants = load_unaligned<std::array<std::uint8_t, super_block / 2>>(from + 16);
  for (std::size_t part = 0; part < 8; ++part) {
    // The first four pairs lie in bytes 0-3 and 4-7; of the others the low bits in bytes 8-11, the high ones above
    // those.
    const std::size_t low = part % 4;
    const int s = part < 4 ? packed[low] & 63 : (packed[low + 8] & 0xF) | packed[low] >> 6 << 4;
    const int m = part < 4 ? packed[low + 4] & 63 : packed[low + 8] >> 4 | packed[low + 4] >> 6 << 4;
    const float part_scale = scale * static_cast<float>(s), part_minimum = minimum * static_cast<float>(m);
    for (std::size_t i = 0; i < 32; ++i) {
      const int byte = quants[part / 2 * 32 + i];
      *out++ = part_scale * static_cast<float>(part % 2 == 0 ? byte & 0xF : byte >> 4) - part_minimum;
    }
  }
}

// 256 nibbles, 256 pairs of bits above them, sixteen signed scales, a float16 scale: for each 16 values
// scale * their scale * (q - 32). Of 128 values, bytes i and i + 32 hold the low halves of i, i + 32, i + 64, i + 96.
void q6_k(const std::byte* from, float* out) {
  const auto low = load_unaligned<std::array<std::uint8_t, super_block / 2>>(from);
  const auto high = load_unaligned<std::array<std::uint8_t, super_block / 4>>(from + 128);
  const auto scales = load_unaligned<std::array<std::int8_t, 16>>(from + 192);
  const float scale = load_half(from + 208);
  for (std::size_t i = 0; i < super_block; ++i) {
    const std::size_t half = i / 128, quarter = i % 128 / 32, place = i % 32;
    const int nibble = low[half * 64 + quarter % 2 * 32 + place] >> (quarter / 2 * 4) & 0xF;
    const int above = high[half * 32 + place] >> (quarter * 2) & 3;
    out[i] = scale * static_cast<float>(scales[i / 16]) * static_cast<float>((nibble | above << 4) - 32);
  }
}

template <std::size_t block_bytes, std::size_t values, class DequantiseBlock>
void each_block(std::span<const std::byte> data, float* out, DequantiseBlock dequantise_block) {
  for (std::size_t at = 0; at < data.size(); at += block_bytes, out += values) dequantise_block(data.data() + at, out);
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
    case GgufType::bf16:
      for (std::size_t i = 0; i < elements; ++i) out[i] = load_brain(tensor.data.data() + 2 * i);
      return;
    case GgufType::q4_k: each_block<144, super_block>(tensor.data, out.data(), q4_k); return;
    case GgufType::q6_k: each_block<210, super_block>(tensor.data, out.data(), q6_k); return;
    case GgufType::q4_0: each_block<18, block>(tensor.data, out.data(), q4_0); return;
    case GgufType::q4_1: each_block<20, block>(tensor.data, out.data(), q4_1); return;
    case GgufType::q8_0: each_block<34, block>(tensor.data, out.data(), q8_0); return;
  }
}

}  // namespace millrace
