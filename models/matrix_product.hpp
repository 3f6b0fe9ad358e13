#pragma once
// Matrix products whose result is float32 although their factors may be bfloat16, which LibTorch does not offer on
// CPUs (on GPUs it does).
#include <ATen/ATen.h>

namespace millrace {

// x [rows, in] times weight [out, in] transposed: [rows, out] float32. Both contiguous and of one dtype.
at::Tensor wide_product(const at::Tensor& x, const at::Tensor& weight);

// gradient [out, in] (float32) += dy [rows, out] transposed times x [rows, in]: what a batch says of a weight. All
// contiguous, the factors of one dtype.
void add_weight_gradient(const at::Tensor& gradient, const at::Tensor& dy, const at::Tensor& x);

// A matrix in memory, whose rows lie `stride` numbers apart.
template <class T>
struct Factor {
  const T* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;  // memory holds the transpose
};

// c [m, n] = beta * c + a [m, k] times b [k, n]; rows of c lie `stride` apart. On the calling thread's threads.
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, Factor<float> a, Factor<float> b, float beta, float* c,
              std::int64_t stride);
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, Factor<at::BFloat16> a, Factor<at::BFloat16> b,
              float beta, float* c, std::int64_t stride);

}  // namespace millrace
