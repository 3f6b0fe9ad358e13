#include "models/matrix_product.hpp"

// MKL's, which libtorch_cpu.so contains and exports; its header is not in the wheel. Sums are float32; on CPUs without
// bfloat16 arithmetic it works, too, slowly.
extern "C" void cblas_gemm_bf16bf16f32(int layout, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                                       const std::uint16_t* a, int lda, const std::uint16_t* b, int ldb, float beta,
                                       float* c, int ldc);

namespace millrace {

namespace {

constexpr int row_major = 101, as_it_is = 111, transposed = 112;

const std::uint16_t* bits_of(const at::Tensor& tensor) {
  TORCH_INTERNAL_ASSERT(tensor.is_contiguous());
  return reinterpret_cast<const std::uint16_t*>(tensor.const_data_ptr<at::BFloat16>());
}

}  // namespace

at::Tensor wide_product(const at::Tensor& x, const at::Tensor& weight) {
  if (x.scalar_type() != at::kBFloat16) return at::linear(x, weight);
  const int rows = static_cast<int>(x.size(0)), in = static_cast<int>(x.size(1)),
            out = static_cast<int>(weight.size(0));
  at::Tensor result = at::empty({rows, out}, at::kFloat);
  cblas_gemm_bf16bf16f32(row_major, as_it_is, transposed, rows, out, in, 1.0f, bits_of(x), in, bits_of(weight), in,
                         0.0f, result.data_ptr<float>(), out);
  return result;
}

void add_weight_gradient(const at::Tensor& gradient, const at::Tensor& dy, const at::Tensor& x) {
  if (x.scalar_type() != at::kBFloat16) {
    gradient.addmm_(dy.t(), x);
    return;
  }
  const int rows = static_cast<int>(x.size(0)), in = static_cast<int>(x.size(1)), out = static_cast<int>(dy.size(1));
  cblas_gemm_bf16bf16f32(row_major, transposed, as_it_is, out, in, rows, 1.0f, bits_of(dy), out, bits_of(x), in, 1.0f,
                         gradient.data_ptr<float>(), in);
}

}  // namespace millrace
