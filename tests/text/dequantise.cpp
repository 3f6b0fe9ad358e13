#include <cmath>
#include <limits>
#include <stdexcept>

#include <doctest/doctest.h>

#include "models/text/gguf.hpp"
#include "tests/text/smollm2.hpp"

namespace millrace {
namespace {

std::vector<float> dequantised(GgufType type, std::int64_t values, const std::vector<std::uint8_t>& bytes) {
  const GgufTensor tensor{"w", type, {values}, std::as_bytes(std::span(bytes))};
  std::vector<float> out(static_cast<std::size_t>(values));
  dequantise(tensor, out);
  return out;
}

// float16, low byte first: 0.5, -2, 3
constexpr std::uint8_t half[] = {0x00, 0x38};
constexpr std::uint8_t minus_two[] = {0x00, 0xC0};
constexpr std::uint8_t three[] = {0x00, 0x42};

// Byte i holds i in its low half and 15 - i in its high half: the values are 0 .. 15, then 15 .. 0.
void append_nibbles(std::vector<std::uint8_t>& bytes) {
  for (int i = 0; i < 16; ++i) bytes.push_back(static_cast<std::uint8_t>(i | (15 - i) << 4));
}

TEST_CASE("Q8_0: scale times signed byte") {
  std::vector<std::uint8_t> bytes(half, half + 2);
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<std::uint8_t>(i == 0 ? -128 : i == 31 ? 127 : i));
  const auto values = dequantised(GgufType::q8_0, 32, bytes);
  CHECK(values[0] == -64.f);
  CHECK(values[5] == 2.5f);
  CHECK(values[31] == 63.5f);
}

TEST_CASE("Q4_0: scale times nibble - 8, low halves first") {
  std::vector<std::uint8_t> bytes(minus_two, minus_two + 2);
  append_nibbles(bytes);
  const auto values = dequantised(GgufType::q4_0, 32, bytes);
  CHECK(values[0] == 16.f);
  CHECK(values[15] == -14.f);
  CHECK(values[16] == -14.f);
  CHECK(values[31] == 16.f);
  CHECK(values[10] == -4.f);
}

TEST_CASE("Q4_1: scale times nibble + minimum; blocks follow one another") {
  std::vector<std::uint8_t> bytes(half, half + 2);
  bytes.insert(bytes.end(), three, three + 2);
  append_nibbles(bytes);
  bytes.insert(bytes.end(), three, three + 2);
  bytes.insert(bytes.end(), minus_two, minus_two + 2);
  append_nibbles(bytes);
  const auto values = dequantised(GgufType::q4_1, 64, bytes);
  CHECK(values[0] == 3.f);
  CHECK(values[7] == 6.5f);
  CHECK(values[16] == 10.5f);
  CHECK(values[32] == -2.f);
  CHECK(values[32 + 15] == 43.f);
  CHECK(values[63] == -2.f);
}

TEST_CASE("F16: every one of the 65536 bit patterns") {
  std::vector<std::uint8_t> bytes;
  for (int bits = 0; bits < 65536; ++bits) {
    bytes.push_back(static_cast<std::uint8_t>(bits & 0xFF));
    bytes.push_back(static_cast<std::uint8_t>(bits >> 8));
  }
  const auto values = dequantised(GgufType::f16, 65536, bytes);
  CHECK(values[0x3C00] == 1.f);
  CHECK(values[0x3555] == 0.333251953125f);
  CHECK(values[0x0001] == 0x1p-24f);
  CHECK(values[0x7BFF] == 65504.f);
  for (int bits = 0; bits < 65536; ++bits) {
    const int exponent = bits >> 10 & 0x1F;
    const int mantissa = bits & 0x3FF;
    float right = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    if (exponent == 31) right = mantissa ? std::nanf("") : std::numeric_limits<float>::infinity();
    const float value = values[static_cast<std::size_t>(bits)];
    const bool same = std::isnan(right) ? std::isnan(value) : std::abs(value) == right;
    if (!same || std::signbit(value) != (bits >= 0x8000)) FAIL_CHECK("wrong value for " << bits << ": " << value);
  }
}

// tests/data/quants.json: random blocks, as the Python package `gguf` reads them.
TEST_CASE("every block format gives the reference's values") {
  const auto quants = nlohmann::json::parse(std::ifstream(MILLRACE_TEST_DATA "/quants.json"));
  const std::map<std::string, GgufType> types = {{"Q4_K", GgufType::q4_k}, {"Q6_K", GgufType::q6_k},
                                                 {"BF16", GgufType::bf16}, {"Q4_0", GgufType::q4_0},
                                                 {"Q4_1", GgufType::q4_1}, {"Q8_0", GgufType::q8_0}};
  for (const auto& [name, type] : types) {
    CAPTURE(name);
    const auto hex = quants[name]["bytes"].get<std::string>();
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2) {
      bytes.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    const auto right = quants[name]["values"].get<std::vector<float>>();
    const auto values = dequantised(type, static_cast<std::int64_t>(right.size()), bytes);
    for (std::size_t i = 0; i < right.size(); ++i) CHECK(values[i] == doctest::Approx(right[i]).epsilon(1e-6));
  }
}

TEST_CASE("the size of the output is checked") {
  const std::vector<std::uint8_t> bytes(8);
  const GgufTensor tensor{"w", GgufType::f32, {2}, std::as_bytes(std::span(bytes))};
  std::vector<float> out(3);
  CHECK_THROWS_AS(dequantise(tensor, out), std::invalid_argument);
}

// Values read out of the file by a few lines of Python.
TEST_CASE("weights of the real model") {
  const auto read = [](const std::string& name) {
    const GgufTensor& tensor = smollm2_file().tensors().at(name);
    std::vector<float> values(
        static_cast<std::size_t>(tensor.shape[0] * (tensor.shape.size() > 1 ? tensor.shape[1] : 1)));
    dequantise(tensor, values);
    return values;
  };
  const auto embedding = read("token_embd.weight");
  const std::size_t row = 19556 * 576;
  CHECK(embedding[row] == -0.0512237548828125f);
  CHECK(embedding[row + 1] == 0.0398406982421875f);
  CHECK(embedding[row + 31] == 0.29311370849609375f);
  CHECK(embedding[row + 32] == 0.013608932495117188f);
  CHECK(embedding[row + 575] == 0.0549774169921875f);
  const auto down = read("blk.0.ffn_down.weight");
  CHECK(down[5 * 1536] == -0.198577880859375f);
  CHECK(down[5 * 1536 + 15] == 0.0511474609375f);
  CHECK(down[5 * 1536 + 31] == 0.086822509765625f);
  CHECK(down[5 * 1536 + 1535] == -0.01983642578125f);
  const auto norm = read("blk.29.attn_norm.weight");
  CHECK(norm[0] == 0.400390625f);
  CHECK(norm[575] == 0.41796875f);
}

}  // namespace
}  // namespace millrace
