// Weights in eight bits: the product, and what a decoder makes of it.
#include "models/quantised.hpp"

#include "models/projection.hpp"
#include "tests/models/decoder_fixture.hpp"

namespace millrace {
namespace {

using testing::alone, testing::distance_to_learner, testing::run, testing::Turns;

TEST_CASE("a quantised product is as near to the float product as its rounding allows") {
  at::manual_seed(1);
  for (const std::int64_t in : {2, 30, 64, 576, 1536}) {
    for (const std::int64_t out : {16, 48, 208}) {
      const at::Tensor weight = at::randn({out, in});
      const at::Tensor packed = quantised(weight);
      REQUIRE((packed.scalar_type() == at::kChar));
      CHECK(packed.sizes() == at::IntArrayRef{out, in + 4});
      const at::Tensor scale = weight.abs().amax(1) / 127;
      for (std::int64_t rows = 1; rows <= 18; ++rows) {
        CAPTURE(in);
        CAPTURE(out);
        CAPTURE(rows);
        at::Tensor x = at::randn({rows, in});
        x[0] *= 1000;
        const at::Tensor result = product(x, packed);
        const at::Tensor step =
            x.abs().amax(1, true) / std::min<double>(32767, 2147483647.0 / static_cast<double>(127 * in));
        const at::Tensor bound = x.abs().sum(1, true) * scale / 2 + step * weight.abs().sum(1) / 2 + 1e-4;
        CHECK(((result - at::linear(x, weight)).abs() <= bound * 1.01).all().item<bool>());
        CHECK(at::equal(result[rows - 1], product(x.narrow(0, rows - 1, 1), packed)[0]));
        CHECK(at::equal(float_product(x, packed), result));
      }
    }
  }
}

TEST_CASE("the largest sums fit, and a bad row spoils no other") {
  const at::Tensor weight = at::full({16, 20000}, 3.0), packed = quantised(weight);
  at::Tensor x = at::full({4, 20000}, -2.0);
  x[1].zero_();
  x[2][7] = std::numeric_limits<float>::quiet_NaN();
  x[3][0] = std::numeric_limits<float>::infinity();
  const at::Tensor result = product(x, packed);
  CHECK(at::allclose(result[0], at::full({16}, -120000.0), 1e-3));
  CHECK(at::equal(result[1], at::zeros({16})));
  CHECK(result[2].isnan().all().item<bool>());
  CHECK(result[3].isnan().all().item<bool>());
}

TEST_CASE("matrices of experts are quantised each for itself; what is not divided by a block stays") {
  const at::Tensor experts = at::randn({3, 32, 8});
  const at::Tensor packed = quantised(experts), x = at::randn({5, 8});
  for (std::int64_t e = 0; e < 3; ++e) CHECK(at::equal(product(x, packed[e]), product(x, quantised(experts[e]))));
  for (const auto& weight : {at::randn({17, 8}), at::randn({16, 7})}) CHECK(quantised(weight).is_same(weight));
}

// The model whose float weights are what the quantised copy stands for.
Model dequantised(const Model& model) {
  Weights weights = model.weights->weights;
  const auto round = [](at::Tensor& matrix) {
    const at::Tensor packed = quantised(matrix);
    if (is_quantised(packed)) matrix = product(at::eye(matrix.size(1)), packed).t().contiguous();
  };
  for (Layer& layer : weights.layers) {
    for (at::Tensor* matrix : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down})
      round(*matrix);
  }
  round(weights.head);
  Model result = model;
  Architecture untied = model.weights->architecture;
  untied.tied = false;
  result.weights = std::make_shared<const Snapshot>(0, untied, weights);
  return result;
}

TEST_CASE("recorded log-probs are those of the quantised policy, alone and in a batch") {
  const Model model = testing::small_model();
  const Model right = dequantised(model);
  const auto prompt_of = [](TurnId id) {
    return Tokens(static_cast<std::size_t>(3 + 9 * id), static_cast<TokenId>(60 + id));
  };
  Decoder decoder(model, {.dtype = "int8"});
  for (TurnId id = 0; id < 6; ++id) REQUIRE(decoder.start(id, prompt_of(id), {.max_tokens = 20, .seed = id}));
  const Turns turns = run(decoder);
  double to_float = 0;
  for (TurnId id = 0; id < 6; ++id) {
    CAPTURE(id);
    Decoder other(model, {.dtype = "int8"});
    REQUIRE(other.start(id, prompt_of(id), {.max_tokens = 20, .seed = id}));
    const FinishedTurn single = run(other).at(id);
    CHECK(turns.at(id).tokens == single.tokens);
    CHECK(testing::distance(turns.at(id).logp, single.logp) < 1e-5);
    CHECK(distance_to_learner(right, prompt_of(id), turns.at(id), 1.0) < 1e-3);
    to_float = std::max(to_float, distance_to_learner(model, prompt_of(id), turns.at(id), 1.0));
  }
  CHECK(to_float > 1e-3);  // it is another policy, which the learner has to correct
  CHECK(to_float < 0.5);
}

TEST_CASE("a swap takes the quantised copy of the new weights, prepared or not") {
  const Model model = testing::small_model(true, 1), other = testing::small_model(true, 2);
  const Sampling greedy{.temperature = 0, .max_tokens = 12};
  Decoder decoder(other, {.dtype = "int8"});
  REQUIRE(decoder.start(1, {65, 66}, greedy));
  const Tokens right = run(decoder).at(1).tokens;
  for (const bool prepared : {false, true}) {
    const SnapshotPtr next = renumbered(*other.weights, 5);
    if (prepared) prepare(*next, "int8");
    Decoder swapped(model, {.dtype = "int8"});
    REQUIRE(swapped.swap(next));
    REQUIRE(swapped.start(1, {65, 66}, greedy));
    CHECK(run(swapped).at(1).tokens == right);
  }
}

}  // namespace
}  // namespace millrace
