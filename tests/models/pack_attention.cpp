#include "models/pack_attention.hpp"

#include <ATen/core/grad_mode.h>

#include "tests/models/learner_fixture.hpp"
#include "tests/models/reference.hpp"

namespace millrace {
namespace {

constexpr std::int64_t heads = 6, kv_heads = 2, size = 16;

// Attention by LibTorch with a mask over the whole pack.
at::Tensor masked_attention(const AttentionInput& in, const Pack& pack) {
  const auto heads_first = [](const at::Tensor& x, std::int64_t repeats) {
    return x.to(at::kFloat).transpose(0, 1).unsqueeze(0).repeat_interleave(repeats, 1);
  };
  return at::scaled_dot_product_attention(heads_first(in.q, 1), heads_first(in.k, heads / kv_heads),
                                          heads_first(in.v, heads / kv_heads), mask_of(pack, at::kFloat))
      .squeeze(0)
      .transpose(0, 1)
      .reshape({in.q.size(0), heads * size});
}

// Sequences that begin with the same `prefix` tokens and go on with so many of their own.
Pack pack_of(std::size_t prefix, const std::vector<std::size_t>& rests) {
  std::vector<Sequence> sequences;
  for (std::size_t i = 0; i < rests.size(); ++i) {
    Tokens tokens(prefix, 65);
    tokens.resize(prefix + rests[i], static_cast<TokenId>(i));
    sequences.push_back(testing::plain_sequence(tokens));
  }
  return make_pack(sequences);
}

TEST_CASE("attention within a pack is attention with a mask, and so are its gradients") {
  at::manual_seed(5);
  use_threads(2);
  // Sequences of more than one block of rows; without a prefix, with a short and a long one; one that ends with it.
  for (const auto& [prefix, rests] : std::vector<std::pair<std::size_t, std::vector<std::size_t>>>{
           {0, {5}}, {0, {1, 7, 300, 2}}, {3, {4, 9, 1}}, {150, {40, 129}}, {6, {0, 5}}}) {
    CAPTURE(prefix);
    const Pack pack = pack_of(prefix, rests);
    CHECK(pack.prefix == static_cast<std::int64_t>(rests.size() == 1 ? rests.front() : prefix));
    const std::int64_t rows = pack.tokens.numel();
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const double near = dtype == at::kFloat ? 1e-5 : 0.03;
      const auto leaf = [&](std::int64_t of_heads) {
        return at::randn({rows, of_heads, size}).to(dtype).requires_grad_(true);
      };
      const AttentionInput in{leaf(heads), leaf(kv_heads), leaf(kv_heads)};
      const at::Tensor result = pack_attention(in, pack), right = masked_attention(in, pack);
      CHECK((result.scalar_type() == dtype));
      CHECK(at::allclose(result.to(at::kFloat), right, near, near));
      const at::Tensor direction = at::randn({rows, heads * size}).to(dtype);
      std::vector<at::Tensor> gradients;
      for (const bool ours : {true, false}) {
        for (const at::Tensor* leaf_of : {&in.q, &in.k, &in.v}) leaf_of->mutable_grad() = at::Tensor();
        ours ? result.backward(direction) : right.backward(direction.to(at::kFloat));
        for (const at::Tensor* leaf_of : {&in.q, &in.k, &in.v})
          gradients.push_back(leaf_of->grad().to(at::kFloat).clone());
      }
      for (std::size_t i = 0; i < 3; ++i) {
        CAPTURE(i);
        CHECK(at::allclose(gradients[i], gradients[i + 3], 4 * near, 4 * near));
      }
      const at::NoGradGuard no_gradient;
      CHECK(at::equal(pack_attention(in, pack), result));
    }
  }
  use_threads(1);
}

}  // namespace
}  // namespace millrace
