#include "models/operations.hpp"

#include <mutex>
#include <set>
#include <thread>

#include <ATen/Parallel.h>

#include "models/matrix_product.hpp"
#include "tests/torch_doctest.hpp"

namespace millrace {
namespace {

at::Tensor leaf(at::Tensor values) { return values.requires_grad_(true); }
at::Tensor twin(const at::Tensor& tensor) { return leaf(tensor.detach().clone()); }

// Compares an operation with what LibTorch makes of the same formula: the value, and the gradients of all inputs.
template <class Ours, class Theirs>
void check_same(std::vector<at::Tensor> inputs, Ours ours, Theirs theirs) {
  std::vector<at::Tensor> twins;
  for (const at::Tensor& input : inputs) twins.push_back(twin(input));
  const at::Tensor value = ours(inputs), right = theirs(twins);
  CHECK(at::allclose(value, right, 1e-5, 1e-6));
  const at::Tensor direction = at::randn(value.sizes());
  for (int pass = 0; pass < 2; ++pass) {  // gradients add up
    ours(inputs).backward(direction);
    theirs(twins).backward(direction);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(i);
    REQUIRE(inputs[i].grad().defined());
    CHECK(at::allclose(inputs[i].grad(), twins[i].grad(), 1e-4, 1e-5));
  }
}

// at::parallel_for is a template: without -fopenmp it is a plain loop, and nothing says so.
TEST_CASE("loops of our own run on as many threads as are allowed") {
  at::set_num_threads(2);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  at::parallel_for(0, 2, 1, [&](std::int64_t, std::int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  at::set_num_threads(1);
  CHECK(threads.size() == 2);
}

using Inputs = std::vector<at::Tensor>;

TEST_CASE("values and gradients are those of LibTorch's own operations") {
  at::manual_seed(3);
  SUBCASE("projection") {
    check_same(
        {leaf(at::randn({5, 24})), leaf(at::randn({7, 24}))}, [](const Inputs& in) { return project(in[0], in[1]); },
        [](const Inputs& in) { return at::linear(in[0], in[1]); });
  }
  SUBCASE("norm") {
    check_same(
        {leaf(at::randn({5, 24}) * 3), leaf(at::randn({24}))},
        [](const Inputs& in) { return rms_norm(in[0], in[1], 1e-5); },
        [](const Inputs& in) { return in[0] * (in[0].square().mean(-1, true) + 1e-5).rsqrt() * in[1]; });
  }
  SUBCASE("gate") {
    check_same(
        {leaf(at::randn({5, 33}) * 4), leaf(at::randn({5, 33}))}, [](const Inputs& in) { return gated(in[0], in[1]); },
        [](const Inputs& in) { return at::silu(in[0]) * in[1]; });
  }
  SUBCASE("residual") {
    check_same(
        {leaf(at::randn({5, 24})), leaf(at::randn({5, 24}))}, [](const Inputs& in) { return residual(in[0], in[1]); },
        [](const Inputs& in) { return in[0] + in[1]; });
  }
  SUBCASE("rotation") {
    const at::Tensor angles = at::randn({5, 4});
    const Rotary rotary{angles.cos(), angles.sin()};
    check_same(
        {leaf(at::randn({5, 3, 8}))}, [&](const Inputs& in) { return rotate(in[0], rotary); },
        [&](const Inputs& in) {
          const auto halves = in[0].chunk(2, -1);
          const at::Tensor c = rotary.cos.unsqueeze(1), s = rotary.sin.unsqueeze(1);
          return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1);
        });
  }
  SUBCASE("embedding, with a token that comes twice") {
    const at::Tensor tokens = at::tensor({3, 1, 3}, at::kLong);
    check_same(
        {leaf(at::randn({6, 8}))}, [&](const Inputs& in) { return embed(in[0], tokens); },
        [&](const Inputs& in) { return at::embedding(in[0], tokens); });
  }
}

TEST_CASE("extreme gates neither overflow nor lose NaN") {
  const at::Tensor gate = at::tensor({-1e4f, -90.f, 0.f, 90.f, 1e4f, NAN}).view({1, 6});
  const at::Tensor result = gated(gate, at::ones({1, 6}));
  CHECK(at::allclose(result.narrow(1, 0, 5), at::silu(gate.narrow(1, 0, 5)), 1e-5, 1e-6));
  CHECK(std::isnan(result[0][5].item<float>()));
}

TEST_CASE("with bfloat16 weights hidden states and gradients of weights are float32") {
  at::manual_seed(4);
  const at::Tensor weight = leaf(at::randn({16, 32}).to(at::kBFloat16)), norm = leaf(at::ones({32}).to(at::kBFloat16));
  const at::Tensor hidden = at::randn({6, 32});
  const at::Tensor out = project(rms_norm(hidden, norm, 1e-5), weight);
  CHECK((out.scalar_type() == at::kBFloat16));
  const at::Tensor next = residual(at::zeros({6, 16}), out);
  CHECK((next.scalar_type() == at::kFloat));
  next.backward(at::ones({6, 16}));
  for (const at::Tensor& gradient : {weight.grad(), norm.grad()}) CHECK((gradient.scalar_type() == at::kFloat));
  const at::Tensor x = rms_norm(hidden, norm.detach(), 1e-5).to(at::kFloat);
  CHECK(at::allclose(weight.grad(), x.sum(0).expand({16, 32}), 1e-3, 1e-3));
}

TEST_CASE("products of bfloat16 factors are summed in float32, and gradients added to what is there") {
  at::manual_seed(5);
  const at::Tensor x = at::randn({40, 24}).to(at::kBFloat16), w = at::randn({9, 24}).to(at::kBFloat16);
  const at::Tensor dy = at::randn({40, 9}).to(at::kBFloat16);
  CHECK(at::allclose(wide_product(x, w), at::linear(x.to(at::kFloat), w.to(at::kFloat)), 1e-4, 1e-4));
  const at::Tensor gradient = at::ones({9, 24});
  add_weight_gradient(gradient, dy, x);
  CHECK(at::allclose(gradient, dy.to(at::kFloat).t().mm(x.to(at::kFloat)) + 1, 1e-4, 1e-4));
}

}  // namespace
}  // namespace millrace
