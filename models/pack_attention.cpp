#include "models/pack_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <torch/csrc/autograd/custom_function.h>

#include "models/kernels.hpp"
#include "models/matrix_product.hpp"

namespace millrace {

namespace {

using torch::autograd::AutogradContext;
using Tensors = torch::autograd::variable_list;

constexpr std::int64_t block_rows = 128;  // queries at once

struct Shape {
  std::int64_t heads, kv_heads, size;
  std::vector<std::int64_t> bounds;  // of the pack
  std::int64_t prefix;
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(size)); }
  std::int64_t group() const { return heads / kv_heads; }
};

// Some queries of a sequence, and the keys they see: all of the prefix, and their own sequence's up to the last of
// them.
struct Block {
  std::int64_t first;   // row of the first query
  std::int64_t count;   // queries
  std::int64_t begin;   // row at which their sequence begins
  std::int64_t prefix;  // keys of the prefix, in front of the sequence's own
  std::int64_t own() const { return first + count - begin; }
  std::int64_t columns() const { return prefix + own(); }
  std::int64_t visible(std::int64_t query) const { return prefix + first - begin + query + 1; }
};

std::vector<Block> blocks_of(const Shape& shape) {
  std::vector<Block> blocks;
  for (std::size_t part = 0; part + 1 < shape.bounds.size(); ++part) {
    const std::int64_t begin = shape.bounds[part], end = shape.bounds[part + 1];
    for (std::int64_t first = begin; first < end; first += block_rows) {
      blocks.push_back({first, std::min(block_rows, end - first), begin, begin < shape.prefix ? 0 : shape.prefix});
    }
  }
  return blocks;
}

// Memory of a thread, as much as it has ever needed.
template <class T, int Which>
T* scratch(std::int64_t size) {
  thread_local std::vector<T> memory;
  if (std::ssize(memory) < size) memory.resize(static_cast<std::size_t>(size));
  return memory.data();
}

// Numbers as factors of a product: themselves, or rounded.
template <class T, int Which>
const T* as_factor(const float* numbers, std::int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    return numbers;
  } else {
    T* const narrow = scratch<T, Which>(count);
    for (std::int64_t i = 0; i < count; ++i) kernels::narrow(numbers[i], narrow[i]);
    return narrow;
  }
}

// One head of all rows.
template <class T>
struct Head {
  const T* data;
  std::int64_t stride;
  Head(const at::Tensor& tensor, std::int64_t head)
      : data(tensor.const_data_ptr<T>() + head * tensor.size(2)), stride(tensor.size(1) * tensor.size(2)) {}
  Factor<T> from(std::int64_t row, bool transposed = false) const { return {data + row * stride, stride, transposed}; }
};

// result [queries, columns] = queries times keys (or their values) transposed.
template <class T>
void against_keys(const Block& block, std::int64_t size, const Head<T>& queries, const Head<T>& keys, float* result) {
  const std::int64_t columns = block.columns();
  if (block.prefix > 0)
    multiply(block.count, block.prefix, size, queries.from(block.first), keys.from(0, true), 0, result, columns);
  multiply(block.count, block.own(), size, queries.from(block.first), keys.from(block.begin, true), 0,
           result + block.prefix, columns);
}

// result [queries, size] = weights [queries, columns] times values (or keys).
template <class T>
void times_values(const Block& block, std::int64_t size, const T* weights, const Head<T>& values, float* result,
                  std::int64_t stride) {
  const std::int64_t columns = block.columns();
  if (block.prefix > 0)
    multiply(block.count, size, block.prefix, {weights, columns}, values.from(0), 0, result, stride);
  multiply(block.count, size, block.own(), {weights + block.prefix, columns}, values.from(block.begin),
           block.prefix > 0 ? 1.0f : 0.0f, result, stride);
}

// The other way round: gradient [rows, size] of keys or values += weights transposed times what stands at the queries.
template <class T>
void add_to_keys(const Block& block, std::int64_t size, const T* weights, const Head<T>& queries, float* gradient,
                 std::int64_t stride) {
  const std::int64_t columns = block.columns();
  if (block.prefix > 0)
    multiply(block.prefix, size, block.count, {weights, columns, true}, queries.from(block.first), 1, gradient, stride);
  multiply(block.own(), size, block.count, {weights + block.prefix, columns, true}, queries.from(block.first), 1,
           gradient + block.begin * stride, stride);
}

// Scores become probabilities in place; log_sums[query * heads] = log of the sum of exp(score).
void softmax(const Block& block, float scale, float* scores, float* log_sums, std::int64_t heads) {
  const std::int64_t columns = block.columns();
  kernels::over_rows(
      block.count, columns, [ =, &block ](std::int64_t query) __attribute__((always_inline)) {
        float* const row = scores + query * columns;
        const std::int64_t visible = block.visible(query);
        float largest = -std::numeric_limits<float>::infinity(), total = 0;
#pragma omp simd reduction(max : largest)
        for (std::int64_t i = 0; i < visible; ++i) largest = std::max(largest, row[i]);
#pragma omp simd reduction(+ : total)
        for (std::int64_t i = 0; i < visible; ++i) {
          row[i] = kernels::exponential((row[i] - largest) * scale);
          total += row[i];
        }
        const float inverse = 1.0f / total;
#pragma omp simd
        for (std::int64_t i = 0; i < visible; ++i) row[i] *= inverse;
        std::fill(row + visible, row + columns, 0.0f);
        log_sums[query * heads] = largest * scale + std::log(total);
      });
}

// Scores become probabilities, and what comes back to the probabilities becomes the gradient of the scores:
// p (dp - sum of p dp) scale.
void softmax_backward(const Block& block, float scale, float* scores, float* gradient, const float* log_sums,
                      std::int64_t heads) {
  const std::int64_t columns = block.columns();
  kernels::over_rows(
      block.count, columns, [ =, &block ](std::int64_t query) __attribute__((always_inline)) {
        float *const p = scores + query * columns, *const dp = gradient + query * columns;
        const std::int64_t visible = block.visible(query);
        const float log_sum = log_sums[query * heads];
        float dot = 0;
#pragma omp simd reduction(+ : dot)
        for (std::int64_t i = 0; i < visible; ++i) {
          p[i] = kernels::exponential(p[i] * scale - log_sum);
          dot += p[i] * dp[i];
        }
#pragma omp simd
        for (std::int64_t i = 0; i < visible; ++i) dp[i] = p[i] * (dp[i] - dot) * scale;
        std::fill(p + visible, p + columns, 0.0f);
        std::fill(dp + visible, dp + columns, 0.0f);
      });
}

// The result [rows, heads, head_dim] in float32; log_sums [rows, heads].
template <class T>
void forward_as(const Shape& shape, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, float* result,
                float* log_sums) {
  const std::vector<Block> blocks = blocks_of(shape);
  const std::int64_t heads = shape.heads, size = shape.size, stride = heads * size;
  at::parallel_for(0, std::ssize(blocks) * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const Block& block = blocks[static_cast<std::size_t>(task / heads)];
      const std::int64_t head = task % heads, kv = head / shape.group(), columns = block.columns();
      float* const scores = scratch<float, 0>(block.count * columns);
      against_keys<T>(block, size, {q, head}, {k, kv}, scores);
      softmax(block, shape.scale(), scores, log_sums + block.first * heads + head, heads);
      times_values<T>(block, size, as_factor<T, 0>(scores, block.count * columns), {v, kv},
                      result + block.first * stride + head * size, stride);
    }
  });
}

// Blocks whose queries look at the same keys: those of a sequence or, where they share a prefix, all.
std::vector<std::span<const Block>> runs_of(const Shape& shape, const std::vector<Block>& blocks) {
  if (shape.prefix > 0) return {blocks};
  std::vector<std::span<const Block>> runs;
  for (auto first = blocks.begin(); first != blocks.end();) {
    const auto end = std::find_if(first, blocks.end(), [&](const Block& block) { return block.begin != first->begin; });
    runs.emplace_back(first, end);
    first = end;
  }
  return runs;
}

// A run's part of a key-value head is one thread's: all its queries add to the same keys.
template <class T>
void backward_as(const Shape& shape, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const at::Tensor& dy, const float* log_sums, float* dq, float* dk, float* dv) {
  const std::vector<Block> blocks = blocks_of(shape);
  const std::int64_t heads = shape.heads, size = shape.size, stride = heads * size, kv_stride = shape.kv_heads * size;
  const std::vector<std::span<const Block>> runs = runs_of(shape, blocks);
  at::parallel_for(0, std::ssize(runs) * shape.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t kv = task % shape.kv_heads;
      for (std::int64_t head = kv * shape.group(); head < (kv + 1) * shape.group(); ++head) {
        for (const Block& block : runs[static_cast<std::size_t>(task / shape.kv_heads)]) {
          const std::int64_t numbers = block.count * block.columns();
          float *const p = scratch<float, 0>(numbers), *const ds = scratch<float, 1>(numbers);
          const Head<T> queries(q, head), keys(k, kv), values(v, kv), back(dy, head);
          against_keys<T>(block, size, queries, keys, p);
          against_keys<T>(block, size, back, values, ds);
          softmax_backward(block, shape.scale(), p, ds, log_sums + block.first * heads + head, heads);
          const T *const p_factor = as_factor<T, 0>(p, numbers), *const ds_factor = as_factor<T, 1>(ds, numbers);
          times_values<T>(block, size, ds_factor, keys, dq + block.first * stride + head * size, stride);
          add_to_keys<T>(block, size, ds_factor, queries, dk + kv * size, kv_stride);
          add_to_keys<T>(block, size, p_factor, back, dv + kv * size, kv_stride);
        }
      }
    }
  });
}

struct PackAttention : torch::autograd::Function<PackAttention> {
  // The result, and the logarithms of the sums of every softmax.
  static std::pair<at::Tensor, at::Tensor> value(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                 const Shape& shape) {
    const at::Tensor result = at::empty({q.size(0), shape.heads * shape.size}, at::kFloat);
    const at::Tensor log_sums = at::empty({q.size(0), shape.heads}, at::kFloat);
    const bool narrow = q.scalar_type() == at::kBFloat16;
    (narrow ? forward_as<at::BFloat16> : forward_as<float>)(shape, q, k, v, result.data_ptr<float>(),
                                                            log_sums.data_ptr<float>());
    return {result.to(q.scalar_type()), log_sums};
  }
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const Shape& shape) {
    auto [result, log_sums] = value(q, k, v, shape);
    context->save_for_backward({q, k, v, log_sums});
    context->saved_data["bounds"] = shape.bounds;
    context->saved_data["prefix"] = shape.prefix;
    return result;
  }
  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const Tensors saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const Shape shape{q.size(1), k.size(1), q.size(2), context->saved_data["bounds"].toIntVector(),
                      context->saved_data["prefix"].toInt()};
    const at::Tensor dy = gradients[0].contiguous().view(q.sizes());
    const at::Tensor dq = at::empty(q.sizes(), at::kFloat), dk = at::zeros(k.sizes(), at::kFloat),
                     dv = at::zeros(v.sizes(), at::kFloat);
    const bool narrow = q.scalar_type() == at::kBFloat16;
    (narrow ? backward_as<at::BFloat16> : backward_as<float>)(shape, q, k, v, dy, saved[3].const_data_ptr<float>(),
                                                              dq.data_ptr<float>(), dk.data_ptr<float>(),
                                                              dv.data_ptr<float>());
    return {dq.to(q.scalar_type()), dk.to(q.scalar_type()), dv.to(q.scalar_type()), at::Tensor()};
  }
};

}  // namespace

at::Tensor pack_attention(const AttentionInput& in, const Pack& pack) {
  const Shape shape{in.q.size(1), in.k.size(1), in.q.size(2), pack.bounds, pack.prefix};
  const at::Tensor q = in.q.contiguous(), k = in.k.contiguous(), v = in.v.contiguous();
  if (at::GradMode::is_enabled() && q.requires_grad()) return PackAttention::apply(q, k, v, shape);
  return PackAttention::value(q, k, v, shape).first;
}

}  // namespace millrace
