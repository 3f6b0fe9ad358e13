#include "models/quantised.hpp"

#include <cstring>
#include <limits>
#include <vector>

#include <ATen/Parallel.h>
#include <immintrin.h>

#include "models/kernels.hpp"

// g++ 12 takes the undefined registers of its own AVX-512 header for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace millrace {

namespace {

constexpr std::int64_t width = 16;                      // outputs of a block
constexpr std::int64_t scales = width * sizeof(float);  // bytes before a block's numbers

std::int64_t block_bytes(std::int64_t in) { return scales + width * in; }

// One block's rows, weight [16, in].
inline __attribute__((always_inline)) void quantise_block(const float* weight, std::int64_t in, std::int8_t* block,
                                                          std::int8_t* row) {
  for (std::int64_t r = 0; r < width; ++r, weight += in) {
    float largest = 0;
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < in; ++i) largest = std::max(largest, std::abs(weight[i]));
    const float scale = largest / 127.0f;
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    std::memcpy(block + r * static_cast<std::int64_t>(sizeof scale), &scale, sizeof scale);
#pragma omp simd
    for (std::int64_t i = 0; i < in; ++i) row[i] = static_cast<std::int8_t>(std::nearbyint(weight[i] * inverse));
    for (std::int64_t pair = 0; pair < in / 2; ++pair) {
      std::memcpy(block + scales + (pair * width + r) * 2, row + 2 * pair, 2);
    }
  }
}

// Rows of x as integers, and what one step of each is worth.
struct Integers {
  std::vector<std::int16_t> values;
  std::vector<float> steps;
};

Integers integers_of(const at::Tensor& x) {
  const std::int64_t rows = x.size(0), in = x.size(1);
  const auto largest_sum = std::numeric_limits<std::int32_t>::max() / (127 * in);
  const auto limit = static_cast<float>(std::min<std::int64_t>(largest_sum, std::numeric_limits<std::int16_t>::max()));
  Integers result{std::vector<std::int16_t>(static_cast<std::size_t>(rows * in)),
                  std::vector<float>(static_cast<std::size_t>(rows))};
  const auto* from = x.const_data_ptr<float>();
  std::int16_t* to = result.values.data();
  float* steps = result.steps.data();
  kernels::over_rows(
      rows, in, [=](std::int64_t row) __attribute__((always_inline)) {
        const float* values = from + row * in;
        std::int16_t* integers = to + row * in;
        float largest = 0, poison = 0;
#pragma omp simd reduction(max : largest) reduction(+ : poison)
        for (std::int64_t i = 0; i < in; ++i) {
          largest = std::max(largest, std::abs(values[i]));
          poison += values[i] * 0.0f;  // NaN where a value is not finite
        }
        steps[row] = largest / limit + poison;
        if (!(steps[row] > 0)) return;  // nothing but zeros, or NaN: the integers stay 0
        const float inverse = limit / largest;
#pragma omp simd
        for (std::int64_t i = 0; i < in; ++i) {
          integers[i] = static_cast<std::int16_t>(std::nearbyint(values[i] * inverse));
        }
      });
  return result;
}

// What a product reads and writes.
struct Factors {
  const std::int16_t* x;  // [rows, in]
  const float* steps;     // [rows]
  std::int64_t in;
  const std::int8_t* weight;
  float* out;  // [rows, out_size]
  std::int64_t out_size;
};

std::int32_t two_values(const std::int16_t* x) {
  std::int32_t both;
  std::memcpy(&both, x, sizeof both);
  return both;
}

// `Rows` rows of x from `row` with `Blocks` blocks from `block`. This file is compiled with O3, which unrolls the inner
// loops and keeps the sums in registers.
struct Vnni {
  template <int Rows, int Blocks>
  [[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni")]] static void multiply(const Factors& f, std::int64_t row,
                                                                               std::int64_t block) {
    const std::int64_t bytes = block_bytes(f.in);
    const std::int16_t* x = f.x + row * f.in;
    const std::int8_t* weight = f.weight + block * bytes;
    __m512i sums[Rows][Blocks];
    for (auto& of_row : sums) {
      for (__m512i& sum : of_row) sum = _mm512_setzero_si512();
    }
    const std::int8_t* ahead = weight + (Blocks + row / 4) * bytes;  // called from memory meanwhile
    for (std::int64_t pair = 0; pair < f.in / 2; ++pair) {
      _mm_prefetch(ahead + pair * 2 * width, _MM_HINT_T1);
      __m512i w[Blocks];
      for (int b = 0; b < Blocks; ++b) {
        const auto* numbers = weight + b * bytes + scales + pair * 2 * width;
        w[b] = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers)));
      }
      for (int r = 0; r < Rows; ++r) {
        const __m512i both = _mm512_set1_epi32(two_values(x + r * f.in + 2 * pair));
        for (int b = 0; b < Blocks; ++b) sums[r][b] = _mm512_dpwssd_epi32(sums[r][b], both, w[b]);
      }
    }
    for (int b = 0; b < Blocks; ++b) {
      const __m512 scale = _mm512_loadu_ps(weight + b * bytes);
      for (int r = 0; r < Rows; ++r) {
        const __m512 exact = _mm512_cvtepi32_ps(sums[r][b]);
        _mm512_storeu_ps(f.out + (row + r) * f.out_size + (block + b) * width,
                         _mm512_mul_ps(exact, _mm512_mul_ps(scale, _mm512_set1_ps(f.steps[row + r]))));
      }
    }
  }
};

// The same a block at a time: sums of four rows with one fill half of the registers, twice as many would not fit.
struct Avx2 {
  template <int Rows, int Blocks>
  static void multiply(const Factors& f, std::int64_t row, std::int64_t block) {
    for (int b = 0; b < Blocks; ++b) multiply_block<Rows>(f, row, block + b);
  }

  template <int Rows>
  [[gnu::target("avx2")]] static void multiply_block(const Factors& f, std::int64_t row, std::int64_t block) {
    constexpr int halves = 2;  // of a block's outputs, a register each
    const std::int16_t* x = f.x + row * f.in;
    const std::int8_t* weight = f.weight + block * block_bytes(f.in);
    __m256i sums[Rows][halves];
    for (auto& of_row : sums) {
      for (__m256i& sum : of_row) sum = _mm256_setzero_si256();
    }
    for (std::int64_t pair = 0; pair < f.in / 2; ++pair) {
      __m256i w[halves];
      for (int h = 0; h < halves; ++h) {
        const auto* numbers = weight + scales + (pair * halves + h) * width;
        w[h] = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers)));
      }
      for (int r = 0; r < Rows; ++r) {
        const __m256i both = _mm256_set1_epi32(two_values(x + r * f.in + 2 * pair));
        for (int h = 0; h < halves; ++h) sums[r][h] = _mm256_add_epi32(sums[r][h], _mm256_madd_epi16(both, w[h]));
      }
    }
    for (int h = 0; h < halves; ++h) {
      const __m256 scale = _mm256_loadu_ps(reinterpret_cast<const float*>(weight) + h * width / halves);
      for (int r = 0; r < Rows; ++r) {
        const __m256 exact = _mm256_cvtepi32_ps(sums[r][h]);
        _mm256_storeu_ps(f.out + (row + r) * f.out_size + block * width + h * width / halves,
                         _mm256_mul_ps(exact, _mm256_mul_ps(scale, _mm256_set1_ps(f.steps[row + r]))));
      }
    }
  }
};

void multiply_plainly(const Factors& f, std::int64_t row, std::int64_t block) {
  const std::int16_t* x = f.x + row * f.in;
  const std::int8_t* weight = f.weight + block * block_bytes(f.in);
  std::int32_t sums[width] = {};
  for (std::int64_t i = 0; i < f.in; i += 2) {
    const std::int8_t* numbers = weight + scales + i * width;
    for (std::int64_t c = 0; c < width; ++c) sums[c] += x[i] * numbers[2 * c] + x[i + 1] * numbers[2 * c + 1];
  }
  float scale[width];
  std::memcpy(scale, weight, sizeof scale);
  float* out = f.out + row * f.out_size + block * width;
  for (std::int64_t c = 0; c < width; ++c) out[c] = static_cast<float>(sums[c]) * (scale[c] * f.steps[row]);
}

struct Plain {
  template <int Rows, int Blocks>
  static void multiply(const Factors& f, std::int64_t row, std::int64_t block) {
    for (int r = 0; r < Rows; ++r) {
      for (int b = 0; b < Blocks; ++b) multiply_plainly(f, row + r, block + b);
    }
  }
};

// All rows with `Blocks` blocks, which stay in a near cache meanwhile.
template <class Kind, int Blocks>
void all_rows(const Factors& factors, std::int64_t rows, std::int64_t block) {
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) Kind::template multiply<4, Blocks>(factors, row, block);
  if (rows - row >= 2) {
    Kind::template multiply<2, Blocks>(factors, row, block);
    row += 2;
  }
  if (rows - row == 1) Kind::template multiply<1, Blocks>(factors, row, block);
}

template <class Kind>
void multiply(const Factors& factors, std::int64_t rows) {
  at::parallel_for(0, factors.out_size / width, 4, [&](std::int64_t block, std::int64_t end) {
    for (; block + 4 <= end; block += 4) all_rows<Kind, 4>(factors, rows, block);
    for (; block < end; ++block) all_rows<Kind, 1>(factors, rows, block);
  });
}

}  // namespace

at::Tensor quantised(const at::Tensor& weight) {
  const std::int64_t in = weight.size(-1), out = weight.size(-2);
  if (out % width != 0 || in % 2 != 0) return weight;
  std::vector<std::int64_t> shape = weight.sizes().vec();
  shape.back() += static_cast<std::int64_t>(sizeof(float));
  at::Tensor result = at::empty(shape, at::kChar);
  const at::Tensor rows = weight.contiguous();
  const auto* from = rows.const_data_ptr<float>();
  auto* to = result.data_ptr<std::int8_t>();
  kernels::over_rows(
      rows.numel() / in / width, width * in, [=](std::int64_t block) __attribute__((always_inline)) {
        thread_local std::vector<std::int8_t> row;
        row.resize(static_cast<std::size_t>(in));
        quantise_block(from + block * width * in, in, to + block * block_bytes(in), row.data());
      });
  return result;
}

at::Tensor quantised_product(const at::Tensor& x, const at::Tensor& weight) {
  static const bool vnni =
      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  static const bool avx2 = __builtin_cpu_supports("avx2");
  const at::Tensor rows = x.contiguous(), blocks = weight.contiguous();
  const Integers integers = integers_of(rows);
  at::Tensor result = at::empty({rows.size(0), blocks.size(0)}, at::kFloat);
  const Factors factors{
      integers.values.data(),   integers.steps.data(), rows.size(1), blocks.const_data_ptr<std::int8_t>(),
      result.data_ptr<float>(), blocks.size(0)};
  if (vnni) {
    multiply<Vnni>(factors, rows.size(0));
  } else if (avx2) {
    multiply<Avx2>(factors, rows.size(0));
  } else {
    multiply<Plain>(factors, rows.size(0));
  }
  return result;
}

}  // namespace millrace
