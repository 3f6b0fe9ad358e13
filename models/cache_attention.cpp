#include "models/cache_attention.hpp"

#include <limits>
#include <vector>

#include "models/kernels.hpp"

namespace millrace {

namespace {

// The queries of one key-value head, `group` of them, to `length` keys and values.
template <class T>
inline __attribute__((always_inline)) void attend_head(const T* q, const T* k, const T* v, T* out, std::int64_t group,
                                                       std::int64_t size, std::int64_t length) {
  thread_local std::vector<float> scores, numbers;
  scores.resize(static_cast<std::size_t>(length));
  numbers.resize(static_cast<std::size_t>(2 * size));
  float* const score = scores.data();
  float* const query = numbers.data();
  float* const sum = query + size;
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  for (std::int64_t g = 0; g < group; ++g, q += size, out += size) {
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) query[i] = kernels::widened(q[i]) * scale;
    float largest = -std::numeric_limits<float>::infinity();
    for (std::int64_t t = 0; t < length; ++t) {
      const T* key = k + t * size;
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (std::int64_t i = 0; i < size; ++i) dot += query[i] * kernels::widened(key[i]);
      score[t] = dot;
      largest = std::max(largest, dot);
    }
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t t = 0; t < length; ++t) {
      score[t] = kernels::exponential(score[t] - largest);
      total += score[t];
    }
    for (std::int64_t i = 0; i < size; ++i) sum[i] = 0;
    for (std::int64_t t = 0; t < length; ++t) {
      const T* value = v + t * size;
      const float weight = score[t];
#pragma omp simd
      for (std::int64_t i = 0; i < size; ++i) sum[i] += weight * kernels::widened(value[i]);
    }
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) kernels::narrow(sum[i] / total, out[i]);
  }
}

template <class T>
void attend(const at::Tensor& q, const KvCache::Layer& cache, std::span<const std::int64_t> positions,
            at::Tensor& out) {
  const std::int64_t heads = cache.k.size(1), capacity = cache.k.size(2), size = cache.k.size(3);
  const std::int64_t group = q.size(1) / heads;
  const auto* queries = q.const_data_ptr<T>();
  const auto* keys = cache.k.const_data_ptr<T>();
  const auto* values = cache.v.const_data_ptr<T>();
  auto* results = out.data_ptr<T>();
  const std::int64_t longest = *std::max_element(positions.begin(), positions.end()) + 1;
  kernels::over_rows(
      q.size(0) * heads, group * size * longest, [=](std::int64_t row) __attribute__((always_inline)) {
        const std::int64_t cached = row * capacity * size;  // row = slot * heads + head
        attend_head(queries + row * group * size, keys + cached, values + cached, results + row * group * size, group,
                    size, positions[static_cast<std::size_t>(row / heads)] + 1);
      });
}

}  // namespace

at::Tensor attend_to_cache(const at::Tensor& q, const KvCache::Layer& cache, std::span<const std::int64_t> positions) {
  at::Tensor out = at::empty({q.size(0), q.size(1) * q.size(2)}, q.scalar_type());
  q.scalar_type() == at::kBFloat16 ? attend<c10::BFloat16>(q, cache, positions, out)
                                   : attend<float>(q, cache, positions, out);
  return out;
}

}  // namespace millrace
