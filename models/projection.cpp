#include "models/projection.hpp"

#include <ATen/Parallel.h>
#include <immintrin.h>

namespace millrace {

namespace {

constexpr std::int64_t few_rows = 16;  // up to here the product below is the faster one
constexpr std::int64_t lanes = 8;      // floats of an AVX register

[[gnu::target("avx2,fma")]] inline float sum_of(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Dot products of `Rows` rows of x with `Columns` rows of the weight. O3 unrolls the inner loops, which is what keeps
// the sums in registers.
template <int Rows, int Columns>
[[gnu::target("avx2,fma"), gnu::optimize("O3")]] void block(const float* x, const float* weight, float* out,
                                                            std::int64_t in, std::int64_t out_size) {
  __m256 sums[Rows][Columns];
  for (auto& row : sums) {
    for (__m256& sum : row) sum = _mm256_setzero_ps();
  }
  for (std::int64_t k = 0; k < in; k += lanes) {
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

// All rows of x with `Columns` rows of the weight, which stay in the nearest cache meanwhile.
template <int Columns>
void all_rows(const float* x, const float* weight, float* out, std::int64_t rows, std::int64_t in,
              std::int64_t out_size) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) block<4, Columns>(x + r * in, weight, out + r * out_size, in, out_size);
  x += r * in;
  out += r * out_size;
  if (rows - r == 3) block<3, Columns>(x, weight, out, in, out_size);
  if (rows - r == 2) block<2, Columns>(x, weight, out, in, out_size);
  if (rows - r == 1) block<1, Columns>(x, weight, out, in, out_size);
}

at::Tensor product_of_few_rows(const at::Tensor& x, const at::Tensor& weight) {
  const std::int64_t rows = x.size(0), in = x.size(1), out_size = weight.size(0);
  at::Tensor result = at::empty({rows, out_size}, x.options());
  const auto* x_data = x.const_data_ptr<float>();
  const auto* weight_data = weight.const_data_ptr<float>();
  auto* out = result.data_ptr<float>();
  at::parallel_for(0, out_size, 64, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t c = begin;
    for (; c + 3 <= end; c += 3) all_rows<3>(x_data, weight_data + c * in, out + c, rows, in, out_size);
    for (; c < end; ++c) all_rows<1>(x_data, weight_data + c * in, out + c, rows, in, out_size);
  });
  return result;
}

bool is_plain(const at::Tensor& tensor) { return tensor.scalar_type() == at::kFloat && tensor.is_contiguous(); }

}  // namespace

at::Tensor project(const at::Tensor& x, const at::Tensor& weight) {
  static const bool has_avx = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool few = x.size(0) <= few_rows && x.size(1) % lanes == 0;
  const bool ours = has_avx && few && c10::InferenceMode::is_enabled() && is_plain(x) && is_plain(weight);
  return ours ? product_of_few_rows(x, weight) : at::linear(x, weight);
}

}  // namespace millrace
