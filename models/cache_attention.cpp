#include "models/cache_attention.hpp"

#include <cstring>
#include <limits>

#include "models/kernels.hpp"

namespace millrace {

namespace {

constexpr std::int64_t page_tokens = KvCache::page_tokens;

// The queries of one key-value head, `group` of them, to `length` keys and values. Those of page p begin at
// pages[p] + keys and pages[p] + values.
template <class T>
inline __attribute__((always_inline)) void attend_head(const T* q, void* const* pages, std::int64_t keys,
                                                       std::int64_t values, T* out, std::int64_t group,
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
      const T* key = static_cast<const T*>(pages[t / page_tokens]) + keys + t % page_tokens * size;
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
      const T* value = static_cast<const T*>(pages[t / page_tokens]) + values + t % page_tokens * size;
      const float weight = score[t];
#pragma omp simd
      for (std::int64_t i = 0; i < size; ++i) sum[i] += weight * kernels::widened(value[i]);
    }
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) kernels::narrow(sum[i] / total, out[i]);
  }
}

}  // namespace

void CachedTurns::add(KvCache& cache, std::int64_t position) {
  cache.reserve(position + 1);
  first_page_.push_back(pages_.size());
  positions_.push_back(position);
  for (const at::Tensor& page : cache.pages()) pages_.push_back(page.data_ptr());
}

template <class T>
void CachedTurns::attend_as(std::int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            at::Tensor& out) const {
  const std::int64_t heads = k.size(1), size = k.size(2), group = q.size(1) / heads;
  const auto* queries = q.const_data_ptr<T>();
  const auto* new_keys = k.const_data_ptr<T>();
  const auto* new_values = v.const_data_ptr<T>();
  auto* results = out.data_ptr<T>();
  const std::int64_t longest = *std::max_element(positions_.begin(), positions_.end()) + 1;
  kernels::over_rows(
      k.size(0) * heads, group * size * longest, [ =, this ](std::int64_t row) __attribute__((always_inline)) {
        const auto turn = static_cast<std::size_t>(row / heads);
        const std::int64_t position = positions_[turn], head = row % heads;
        void* const* pages = &pages_[first_page_[turn]];
        const std::int64_t keys = (layer * 2 * heads + head) * page_tokens * size;
        const std::int64_t values = keys + heads * page_tokens * size;
        T* const here = static_cast<T*>(pages[position / page_tokens]) + position % page_tokens * size;
        std::memcpy(here + keys, new_keys + row * size, static_cast<std::size_t>(size) * sizeof(T));
        std::memcpy(here + values, new_values + row * size, static_cast<std::size_t>(size) * sizeof(T));
        attend_head(queries + row * group * size, pages, keys, values, results + row * group * size, group, size,
                    position + 1);
      });
}

at::Tensor CachedTurns::attend(std::int64_t layer, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v) const {
  at::Tensor out = at::empty({q.size(0), q.size(1) * q.size(2)}, q.scalar_type());
  q.scalar_type() == at::kBFloat16 ? attend_as<c10::BFloat16>(layer, q, k, v, out)
                                   : attend_as<float>(layer, q, k, v, out);
  return out;
}

}  // namespace millrace
