// New weights between two tokens of live turns.
#include "tests/models/decoder_fixture.hpp"

namespace millrace {
namespace {

using testing::alone, testing::distance_to_learner, testing::joined, testing::run, testing::Turns;

Model with_version(const Model& model, Version version, float scale = 1.0f) {
  Weights weights = model.weights->weights;
  for (Layer& layer : weights.layers) layer.v = layer.v * scale;
  Model result = model;
  result.weights = std::make_shared<const Snapshot>(version, model.weights->architecture, weights);
  return result;
}

TEST_CASE("B20: an update that does not fit is refused whole; the next one works") {
  const Model model = with_version(testing::small_model(), 7);
  const Model better = with_version(model, 8, 2.0f);
  Decoder decoder(model, {});
  REQUIRE(decoder.start(1, {65, 66}, {.temperature = 0, .max_tokens = 20}));
  run(decoder, 5);
  const auto refuse = [&](const std::function<void(Weights&)>& spoil) {
    Weights weights = better.weights->weights;
    spoil(weights);
    CHECK_FALSE(decoder.swap(std::make_shared<const Snapshot>(9, model.weights->architecture, weights)));
    CHECK(decoder.version() == 7);
  };
  refuse([](Weights& w) { w.layers[1].gate = at::Tensor(); });
  refuse([](Weights& w) { w.layers[1].gate = w.layers[1].down; });
  refuse([](Weights& w) { w.final_norm = w.final_norm * std::numeric_limits<float>::quiet_NaN(); });
  CHECK_FALSE(decoder.swap(nullptr));
  Turns turns = run(decoder);
  CHECK(turns.at(1).tokens == alone(model, {65, 66}, {.temperature = 0, .max_tokens = 20}).tokens);
  CHECK(turns.at(1).versions == std::vector<Version>(20, 7));

  REQUIRE(decoder.swap(better.weights));
  CHECK(decoder.version() == 8);
  REQUIRE(decoder.start(1, {65, 66}, {.temperature = 0, .max_tokens = 20}));
  turns = run(decoder);
  const FinishedTurn right = alone(better, {65, 66}, {.temperature = 0, .max_tokens = 20});
  CHECK(turns.at(1).tokens == right.tokens);
  CHECK(turns.at(1).versions == std::vector<Version>(20, 8));
  CHECK(testing::distance(turns.at(1).logp, right.logp) < 1e-5);
}

TEST_CASE("B21: a swap between two tokens changes the stamp and nothing else where the weights are the same") {
  const Model model = with_version(testing::small_model(), 7);
  const Tokens prompt = {1, 2, 3, 4, 5, 6};
  const Sampling sampling = {.temperature = 0, .max_tokens = 24};
  const FinishedTurn right = alone(model, prompt, sampling);
  REQUIRE(right.tokens.size() == 24);
  for (const bool recompute : {false, true}) {
    Decoder decoder(model, {.recompute_on_swap = recompute});
    REQUIRE(decoder.start(1, prompt, sampling));
    run(decoder, 10);
    REQUIRE(decoder.swap(with_version(model, 8).weights));
    const FinishedTurn turn = run(decoder).at(1);
    CHECK(turn.tokens == right.tokens);
    CHECK(testing::distance(turn.logp, right.logp) < 1e-5);
    std::vector<Version> versions(10, 7);
    versions.resize(24, 8);
    CHECK(turn.versions == versions);
    CHECK(turn.last_weights == 8);
    CHECK(decoder.prompt_tokens() == 6);  // recomputing is no new prompt
  }
}

TEST_CASE("after a swap with other weights, recompute gives the new policy's log-probs; keep those it drew from") {
  const Model before = testing::small_model();
  const Model after = with_version(before, 1, 3.0f);
  const Tokens prompt = {10, 20, 30, 40, 50, 60};
  for (const bool recompute : {false, true}) {
    Decoder decoder(before, {.recompute_on_swap = recompute});
    REQUIRE(decoder.start(1, prompt, {.max_tokens = 20, .seed = 4}));
    run(decoder, 10);
    REQUIRE(decoder.swap(after.weights));
    REQUIRE(decoder.start(2, prompt, {.max_tokens = 20, .seed = 5}));  // may share nothing that old weights made
    const Turns turns = run(decoder);
    const FinishedTurn& turn = turns.at(1);
    const Tokens tokens = joined(prompt, turn.tokens);
    const auto second_half = [](const std::vector<float>& all) { return std::vector(all.begin() + 10, all.end()); };
    const double error = testing::distance(second_half(turn.logp),
                                           second_half(testing::learner_logp(*after.weights, tokens, prompt.size())));
    CHECK((error < 1e-4) == recompute);
    CHECK(distance_to_learner(after, prompt, turns.at(2), 1.0) < 1e-4);
  }
}

TEST_CASE("B30: a swap moves embedding and head together") {
  const Model model = testing::small_model(true);
  Weights weights = model.weights->weights;
  weights.embedding = weights.embedding * 1.5;
  const Architecture& architecture = model.weights->architecture;
  Decoder decoder(model, {});
  CHECK_FALSE(decoder.swap(std::make_shared<const Snapshot>(1, architecture, weights)));  // the head stayed behind
  weights.head = weights.embedding;
  Model moved = model;
  moved.weights = std::make_shared<const Snapshot>(1, architecture, weights);
  REQUIRE(decoder.swap(moved.weights));
  REQUIRE(decoder.start(1, {65, 66}, {.max_tokens = 10}));
  CHECK(distance_to_learner(moved, {65, 66}, run(decoder).at(1), 1.0) < 1e-4);
}

}  // namespace
}  // namespace millrace
