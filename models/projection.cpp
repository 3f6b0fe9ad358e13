#include "models/projection.hpp"

#include <ATen/Parallel.h>
#include <immintrin.h>

#include "models/matrix_product.hpp"
#include "models/quantised.hpp"

// g++ 12 takes the undefined registers of its own AVX-512 header for a mistake.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace millrace {

namespace {

constexpr std::int64_t few_rows = 16;  // up to here the products below are the faster ones

// Whether MKL multiplies bfloat16 in tiles, which is faster than anything below from a few rows on.
bool has_tiles() {
  static const bool supported = __builtin_cpu_supports("amx-bf16");
  return supported;
}

// In tiles a row's result is the same to the last bit whatever other rows there are; MKL computes a row that is alone
// in another way, so it gets company.
at::Tensor product_in_tiles(const at::Tensor& x, const at::Tensor& weight) {
  if (x.size(0) > 1) return wide_product(x.contiguous(), weight.contiguous());
  return wide_product(x.repeat({2, 1}), weight.contiguous()).narrow(0, 0, 1);
}

// Dot products of `Rows` rows of x with `Columns` rows of the weight, while one of the rows that come next is called
// from memory (`ahead`). O3 unrolls the inner loops, which is what keeps the sums in registers.
struct Float {
  using Number = float;
  static constexpr std::int64_t lanes = 8;  // numbers of a register
  static constexpr int columns = 3;         // of a block: 12 sums, which fill the registers
  static bool is_supported() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

  template <int Rows, int Columns, class Result>
  [[gnu::target("avx2,fma"), gnu::optimize("O3")]] static void block(const float* x, const float* weight,
                                                                     const float* ahead, Result* out, std::int64_t in,
                                                                     std::int64_t out_size) {
    __m256 sums[Rows][Columns];
    for (auto& row : sums) {
      for (__m256& sum : row) sum = _mm256_setzero_ps();
    }
    for (std::int64_t k = 0; k < in; k += lanes) {
      _mm_prefetch(ahead + k, _MM_HINT_T1);
      __m256 w[Columns];
      for (int c = 0; c < Columns; ++c) w[c] = _mm256_loadu_ps(weight + c * in + k);
      for (int r = 0; r < Rows; ++r) {
        const __m256 a = _mm256_loadu_ps(x + r * in + k);
        for (int c = 0; c < Columns; ++c) sums[r][c] = _mm256_fmadd_ps(a, w[c], sums[r][c]);
      }
    }
    for (int r = 0; r < Rows; ++r) {
      for (int c = 0; c < Columns; ++c) out[r * out_size + c] = sum_of(sums[r][c]);
    }
  }

  [[gnu::target("avx2,fma")]] static float sum_of(__m256 v) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
};

struct WideFloat {
  using Number = float;
  static constexpr std::int64_t lanes = 16;
  static constexpr int columns = 4;  // of a block: as many as there are blocks of 4 rows, each of which calls one
  static bool is_supported() { return __builtin_cpu_supports("avx512f"); }

  template <int Rows, int Columns, class Result>
  [[gnu::target("avx512f"), gnu::optimize("O3")]] static void block(const float* x, const float* weight,
                                                                    const float* ahead, Result* out, std::int64_t in,
                                                                    std::int64_t out_size) {
    __m512 sums[Rows][Columns];
    for (auto& row : sums) {
      for (__m512& sum : row) sum = _mm512_setzero_ps();
    }
    for (std::int64_t k = 0; k < in; k += lanes) {
      _mm_prefetch(ahead + k, _MM_HINT_T1);
      __m512 a[Rows];
      for (int r = 0; r < Rows; ++r) a[r] = _mm512_loadu_ps(x + r * in + k);
      for (int c = 0; c < Columns; ++c) {
        const __m512 w = _mm512_loadu_ps(weight + c * in + k);
        for (int r = 0; r < Rows; ++r) sums[r][c] = _mm512_fmadd_ps(a[r], w, sums[r][c]);
      }
    }
    for (int r = 0; r < Rows; ++r) {
      for (int c = 0; c < Columns; ++c) out[r * out_size + c] = _mm512_reduce_add_ps(sums[r][c]);
    }
  }
};

// Products of bfloat16 pairs, added up in float32.
struct BFloat16 {
  using Number = at::BFloat16;
  static constexpr std::int64_t lanes = 32;
  static constexpr int columns = 3;
  static bool is_supported() { return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw"); }

  template <int Rows, int Columns, class Result>
  [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16"), gnu::optimize("O3")]] static void block(
      const at::BFloat16* x, const at::BFloat16* weight, const at::BFloat16* ahead, Result* out, std::int64_t in,
      std::int64_t out_size) {
    __m512 sums[Rows][Columns];
    for (auto& row : sums) {
      for (__m512& sum : row) sum = _mm512_setzero_ps();
    }
    for (std::int64_t k = 0; k < in; k += lanes) {
      _mm_prefetch(ahead + k, _MM_HINT_T1);
      __m512bh w[Columns];
      for (int c = 0; c < Columns; ++c) w[c] = (__m512bh)_mm512_loadu_si512(weight + c * in + k);
      for (int r = 0; r < Rows; ++r) {
        const __m512bh a = (__m512bh)_mm512_loadu_si512(x + r * in + k);
        for (int c = 0; c < Columns; ++c) sums[r][c] = _mm512_dpbf16_ps(sums[r][c], a, w[c]);
      }
    }
    for (int r = 0; r < Rows; ++r) {
      for (int c = 0; c < Columns; ++c) out[r * out_size + c] = static_cast<Result>(_mm512_reduce_add_ps(sums[r][c]));
    }
  }
};

// All rows of x with `Columns` rows of the weight, which stay in the nearest cache meanwhile. The next ones are on
// their way while these are multiplied: waiting for memory and multiplying take about as long.
template <class Kind, int Columns, class Result>
void all_rows(const typename Kind::Number* x, const typename Kind::Number* weight, Result* out, std::int64_t rows,
              std::int64_t in, std::int64_t out_size) {
  const auto* ahead = weight + Columns * in;
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4, ahead += in) {
    Kind::template block<4, Columns>(x + r * in, weight, ahead, out + r * out_size, in, out_size);
  }
  x += r * in;
  out += r * out_size;
  if (rows - r == 3) Kind::template block<3, Columns>(x, weight, ahead, out, in, out_size);
  if (rows - r == 2) Kind::template block<2, Columns>(x, weight, ahead, out, in, out_size);
  if (rows - r == 1) Kind::template block<1, Columns>(x, weight, ahead, out, in, out_size);
}

template <class Kind, class Result>
at::Tensor product_of_few_rows(const at::Tensor& x, const at::Tensor& weight) {
  const std::int64_t rows = x.size(0), in = x.size(1), out_size = weight.size(0);
  at::Tensor result = at::empty({rows, out_size}, c10::CppTypeToScalarType<Result>::value);
  const auto* x_data = x.const_data_ptr<typename Kind::Number>();
  const auto* weight_data = weight.const_data_ptr<typename Kind::Number>();
  auto* out = result.data_ptr<Result>();
  at::parallel_for(0, out_size, 64, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t c = begin;
    for (; c + Kind::columns <= end; c += Kind::columns)
      all_rows<Kind, Kind::columns>(x_data, weight_data + c * in, out + c, rows, in, out_size);
    for (; c < end; ++c) all_rows<Kind, 1>(x_data, weight_data + c * in, out + c, rows, in, out_size);
  });
  return result;
}

template <class Kind>
bool is_ours(const at::Tensor& x, const at::Tensor& weight) {
  static const bool supported = Kind::is_supported();
  constexpr auto dtype = c10::CppTypeToScalarType<typename Kind::Number>::value;
  return supported && x.is_cpu() && x.size(0) <= few_rows && x.size(1) % Kind::lanes == 0 && x.scalar_type() == dtype &&
         weight.scalar_type() == dtype && x.is_contiguous() && weight.is_contiguous();
}

// A processor without instructions for bfloat16 multiplies it as float32, which is faster, too.
bool has_no_bfloat16(const at::Tensor& x) {
  static const bool none = !BFloat16::is_supported();
  return none && x.is_cpu() && x.scalar_type() == at::kBFloat16;
}

}  // namespace

at::Tensor product(const at::Tensor& x, const at::Tensor& weight) {
  if (is_quantised(weight)) return quantised_product(x, weight);
  if (is_ours<WideFloat>(x, weight)) return product_of_few_rows<WideFloat, float>(x, weight);
  if (is_ours<Float>(x, weight)) return product_of_few_rows<Float, float>(x, weight);
  if (x.is_cpu() && x.scalar_type() == at::kBFloat16 && has_tiles())
    return product_in_tiles(x, weight).to(at::kBFloat16);
  if (is_ours<BFloat16>(x, weight)) return product_of_few_rows<BFloat16, at::BFloat16>(x, weight);
  if (has_no_bfloat16(x)) return product(x.to(at::kFloat), weight.to(at::kFloat)).to(at::kBFloat16);
  return at::linear(x, weight);
}

at::Tensor float_product(const at::Tensor& x, const at::Tensor& weight) {
  if (is_quantised(weight)) return quantised_product(x, weight);
  if (is_ours<WideFloat>(x, weight)) return product_of_few_rows<WideFloat, float>(x, weight);
  if (is_ours<Float>(x, weight)) return product_of_few_rows<Float, float>(x, weight);
  if (x.is_cpu() && x.scalar_type() == at::kBFloat16 && has_tiles()) return product_in_tiles(x, weight);
  if (is_ours<BFloat16>(x, weight)) return product_of_few_rows<BFloat16, float>(x, weight);
  if (has_no_bfloat16(x)) return product(x.to(at::kFloat), weight.to(at::kFloat));
  return wide_product(x, weight);
}

}  // namespace millrace
