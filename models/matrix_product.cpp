#include "models/matrix_product.hpp"

// MKL's, which libtorch_cpu.so contains and exports; its headers are not in the wheel. bfloat16 works on CPUs without
// arithmetic for it, too, slowly.
extern "C" {
void cblas_gemm_bf16bf16f32(int layout, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                            const std::uint16_t* a, int lda, const std::uint16_t* b, int ldb, float beta, float* c,
                            int ldc);
void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb, const float* beta,
            float* c, const int* ldc);
}

namespace millrace {

namespace {

constexpr int row_major = 101, as_it_is = 111, transposed = 112;

Factor<at::BFloat16> factor_of(const at::Tensor& tensor, bool is_transposed = false) {
  TORCH_INTERNAL_ASSERT(tensor.is_contiguous());
  return {tensor.const_data_ptr<at::BFloat16>(), tensor.size(1), is_transposed};
}

const std::uint16_t* bits(const at::BFloat16* numbers) { return reinterpret_cast<const std::uint16_t*>(numbers); }

}  // namespace

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, Factor<float> a, Factor<float> b, float beta, float* c,
              std::int64_t stride) {
  // Fortran's matrices lie by columns: it sees the transposes of all three, hence b comes first.
  const int rows = static_cast<int>(n), columns = static_cast<int>(m), inner = static_cast<int>(k);
  const int lda = static_cast<int>(b.stride), ldb = static_cast<int>(a.stride), ldc = static_cast<int>(stride);
  const float one = 1;
  sgemm_(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &rows, &columns, &inner, &one, b.data, &lda, a.data, &ldb,
         &beta, c, &ldc);
}

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, Factor<at::BFloat16> a, Factor<at::BFloat16> b,
              float beta, float* c, std::int64_t stride) {
  cblas_gemm_bf16bf16f32(row_major, a.transposed ? transposed : as_it_is, b.transposed ? transposed : as_it_is,
                         static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1.0f, bits(a.data),
                         static_cast<int>(a.stride), bits(b.data), static_cast<int>(b.stride), beta, c,
                         static_cast<int>(stride));
}

at::Tensor wide_product(const at::Tensor& x, const at::Tensor& weight) {
  if (x.scalar_type() != at::kBFloat16) return at::linear(x, weight);
  if (!x.is_cpu()) return at::mm(x, weight.t(), at::kFloat);
  const std::int64_t rows = x.size(0), in = x.size(1), out = weight.size(0);
  at::Tensor result = at::empty({rows, out}, at::kFloat);
  multiply(rows, out, in, factor_of(x), factor_of(weight, true), 0.0f, result.data_ptr<float>(), out);
  return result;
}

void add_weight_gradient(const at::Tensor& gradient, const at::Tensor& dy, const at::Tensor& x) {
  if (x.scalar_type() != at::kBFloat16) {
    gradient.addmm_(dy.t(), x);
  } else if (!x.is_cpu()) {
    gradient.add_(at::mm(dy.t(), x, at::kFloat));
  } else {
    const std::int64_t rows = x.size(0), in = x.size(1), out = dy.size(1);
    multiply(out, in, rows, factor_of(dy, true), factor_of(x), 1.0f, gradient.data_ptr<float>(), in);
  }
}

}  // namespace millrace
