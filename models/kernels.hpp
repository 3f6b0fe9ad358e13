#pragma once
// Loops over rows that LibTorch would make of five to ten operations each. Numbers are float32 or bfloat16 in memory
// and float32 in registers. Included by few: every loop is compiled once plainly and once for AVX-512.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include <ATen/Parallel.h>
#include <c10/util/BFloat16.h>

namespace millrace::kernels {

inline float widened(float value) { return value; }
inline float widened(c10::BFloat16 value) { return std::bit_cast<float>(std::uint32_t{value.x} << 16); }

// To the nearest, ties to even. NaN stays NaN.
inline void narrow(float value, float& result) { result = value; }
inline void narrow(float value, c10::BFloat16& result) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  result.x = static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

// e^x within 2 ulp, in a form that compilers vectorise: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2] (Cephes).
inline float exponential(float x) {
  x = std::min(std::max(x, -87.0f), 88.0f);
  const float n = std::nearbyint(x * 1.44269504f);
  const float f = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  for (const float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    p = p * f + c;
  }
  p = p * f * f + f + 1.0f;
  return p * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}
inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

template <class Loop>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,fma")]] void in_wide_registers(const Loop& loop, std::int64_t row) {
  loop(row);
}

// loop(row) for all rows, on all threads. It has to be always_inline, so that it is compiled for both kinds of
// register.
template <class Loop>
void over_rows(std::int64_t rows, std::int64_t row_size, const Loop& loop) {
  static const bool wide = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma");
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / row_size);
  at::parallel_for(0, rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) wide ? in_wide_registers(loop, row) : loop(row);
  });
}

#define MILLRACE_ROW_LOOP [=](std::int64_t row) __attribute__((always_inline))

// y = x * scale * weight with scale[row] = 1 / sqrt(mean(x^2) + epsilon).
template <class T>
void rms_norm(const float* x, const T* weight, T* y, float* scale, std::int64_t rows, std::int64_t size,
              float epsilon) {
  over_rows(
      rows, size, MILLRACE_ROW_LOOP {
        const float* in = x + row * size;
        T* out = y + row * size;
        float squares = 0;
#pragma omp simd reduction(+ : squares)
        for (std::int64_t i = 0; i < size; ++i) squares += in[i] * in[i];
        const float s = 1.0f / std::sqrt(squares / static_cast<float>(size) + epsilon);
        scale[row] = s;
#pragma omp simd
        for (std::int64_t i = 0; i < size; ++i) narrow(in[i] * s * widened(weight[i]), out[i]);
      });
}

// dx = scale * (w dy - x * scale^2 * mean(w dy x)).
template <class T>
void rms_norm_backward(const float* x, const T* weight, const float* scale, const T* dy, float* dx, std::int64_t rows,
                       std::int64_t size) {
  over_rows(
      rows, size, MILLRACE_ROW_LOOP {
        const float* in = x + row * size;
        const T* g = dy + row * size;
        float* out = dx + row * size;
        const float s = scale[row];
        float dot = 0;
#pragma omp simd reduction(+ : dot)
        for (std::int64_t i = 0; i < size; ++i) dot += widened(g[i]) * widened(weight[i]) * in[i];
        const float back = dot * s * s / static_cast<float>(size);
#pragma omp simd
        for (std::int64_t i = 0; i < size; ++i) out[i] = s * (widened(g[i]) * widened(weight[i]) - in[i] * back);
      });
}

// dw += sum over rows of dy * x * scale, some columns after the others.
template <class T>
void rms_norm_weight_gradient(const float* x, const float* scale, const T* dy, float* dw, std::int64_t rows,
                              std::int64_t size) {
  constexpr std::int64_t width = 64;  // sums that registers hold
  over_rows((size + width - 1) / width, rows * width, [=](std::int64_t block) __attribute__((always_inline)) {
    const std::int64_t begin = block * width, count = std::min(width, size - begin);
    float sums[width] = {};
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* in = x + row * size + begin;
      const T* g = dy + row * size + begin;
      const float s = scale[row];
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) sums[i] += widened(g[i]) * in[i] * s;
    }
    for (std::int64_t i = 0; i < count; ++i) dw[begin + i] += sums[i];
  });
}

// y = silu(gate) * up
template <class T>
void gated(const T* gate, const T* up, T* y, std::int64_t rows, std::int64_t size) {
  over_rows(
      rows, size, MILLRACE_ROW_LOOP {
        const std::int64_t begin = row * size;
#pragma omp simd
        for (std::int64_t i = begin; i < begin + size; ++i) {
          const float g = widened(gate[i]);
          narrow(g * sigmoid(g) * widened(up[i]), y[i]);
        }
      });
}

template <class T>
void gated_backward(const T* gate, const T* up, const T* dy, T* dgate, T* dup, std::int64_t rows, std::int64_t size) {
  over_rows(
      rows, size, MILLRACE_ROW_LOOP {
        const std::int64_t begin = row * size;
#pragma omp simd
        for (std::int64_t i = begin; i < begin + size; ++i) {
          const float g = widened(gate[i]), d = widened(dy[i]), s = sigmoid(g);
          narrow(d * widened(up[i]) * s * (1.0f + g * (1.0f - s)), dgate[i]);
          narrow(d * g * s, dup[i]);
        }
      });
}

// Rotates the pairs (i, i + half) of every head by the row's angles; sign -1 rotates back.
template <class T>
void rotate(const T* x, const float* cosines, const float* sines, T* y, std::int64_t rows, std::int64_t heads,
            std::int64_t half, float sign) {
  over_rows(
      rows, heads * half * 2, MILLRACE_ROW_LOOP {
        const float* c = cosines + row * half;
        const float* s = sines + row * half;
        for (std::int64_t head = 0; head < heads; ++head) {
          const T* in = x + (row * heads + head) * half * 2;
          T* out = y + (row * heads + head) * half * 2;
#pragma omp simd
          for (std::int64_t i = 0; i < half; ++i) {
            const float a = widened(in[i]), b = widened(in[i + half]);
            narrow(a * c[i] - sign * b * s[i], out[i]);
            narrow(b * c[i] + sign * a * s[i], out[i + half]);
          }
        }
      });
}

// y = x + update
template <class T>
void add(const float* x, const T* update, float* y, std::int64_t rows, std::int64_t size) {
  over_rows(
      rows, size, MILLRACE_ROW_LOOP {
        const std::int64_t begin = row * size;
#pragma omp simd
        for (std::int64_t i = begin; i < begin + size; ++i) y[i] = x[i] + widened(update[i]);
      });
}

// logits become e^(z - max z) with z = logits / temperature; sum[row] is theirs. logp[row] is the token's, entropy[row]
// that of the whole distribution.
inline void exponentials_of_logits(float* logits, const std::int64_t* tokens, const float* temperature, float* sum,
                                   float* logp, float* entropy, std::int64_t rows, std::int64_t size) {
  constexpr std::int64_t block = 2048;  // sums of a block in float32, of all in float64
  over_rows(
      rows, size, MILLRACE_ROW_LOOP {
        float* z = logits + row * size;
        const float inverse = 1.0f / temperature[row];
        float highest = z[0];
#pragma omp simd reduction(max : highest)
        for (std::int64_t i = 0; i < size; ++i) highest = std::max(highest, z[i]);
        const float of_token = (z[tokens[row]] - highest) * inverse;
        double all = 0, all_weighted = 0;
        for (std::int64_t begin = 0; begin < size; begin += block) {
          const std::int64_t end = std::min(begin + block, size);
          float part = 0, weighted = 0;
#pragma omp simd reduction(+ : part, weighted)
          for (std::int64_t i = begin; i < end; ++i) {
            const float below = (z[i] - highest) * inverse;
            z[i] = exponential(below);
            part += z[i];
            weighted += z[i] * below;
          }
          all += part;
          all_weighted += weighted;
        }
        sum[row] = static_cast<float>(all);
        logp[row] = static_cast<float>(of_token - std::log(all));
        entropy[row] = static_cast<float>(std::log(all) - all_weighted / all);
      });
}

#undef MILLRACE_ROW_LOOP

}  // namespace millrace::kernels
