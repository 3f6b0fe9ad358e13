#include "models/experts.hpp"

#include "tests/models/families_fixture.hpp"

#include "models/cached_transformer.hpp"

namespace millrace {
namespace {

using nlohmann::json;
using testing::model_of, testing::expected_of;

// Share of the (row, expert) pairs of `a` that `b` has not chosen in the same row, whatever the order. [rows, count]
double routing_mismatch(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor found = (a.unsqueeze(2) == b.unsqueeze(1)).any(2);
  return 1.0 - found.to(at::kFloat).mean().item<double>();
}

// Routing of the cached decoder against that of the learner for the same tokens; in bfloat16 it differs a little.
TEST_CASE("rollout and learner send tokens to the same experts") {
  const Model model = model_of("qwen3-moe");
  const Architecture& a = model.weights->architecture;
  const json expected = expected_of("qwen3-moe");
  const auto tokens = expected.at("input_ids")[0].get<Tokens>();
  const auto cached = [&](at::ScalarType dtype) {
    CachedTransformer transformer(model.weights, dtype);
    const c10::InferenceMode no_gradients;
    KvCache cache = transformer.empty_cache();
    std::vector<std::vector<at::Tensor>> layers(static_cast<std::size_t>(a.layers));
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      RoutingLog log;
      const Feed feed{&cache, static_cast<std::int64_t>(t), {&tokens[t], 1}};
      transformer.next_logits({&feed, 1});
      for (std::size_t i = 0; i < layers.size(); ++i) layers[i].push_back(log.experts.at(i));
    }
    std::vector<at::Tensor> rows;
    for (const auto& layer : layers) rows.push_back(at::cat(layer));
    return rows;
  };
  RoutingLog learner;
  testing::learner_logits(*model.weights, tokens);
  REQUIRE(learner.experts.size() == 2);
  const auto mismatch = [&](const std::vector<at::Tensor>& rollout) {
    return routing_mismatch(at::cat(rollout), at::cat(learner.experts));
  };
  CHECK(mismatch(cached(at::kFloat)) == 0.0);
  const double in_bfloat16 = mismatch(cached(at::kBFloat16));
  MESSAGE("routing mismatch of a bfloat16 rollout: " << in_bfloat16);
  CHECK(in_bfloat16 < 0.2);
  CHECK(routing_mismatch(at::tensor({0, 1, 2, 3}).view({2, 2}), at::tensor({1, 0, 2, 4}).view({2, 2})) == 0.25);
}

TEST_CASE("a critic of experts trains their projections and its head, nothing else") {
  use_threads(1);
  const Model model = load_model({.path = "", .random = {.experts = 4}}, 1).value();
  CHECK(model.weights->architecture.family == "qwen3_moe");
  ValueSettings settings;
  settings.dtype = "float32";
  ValueLearner learner(model, settings, {});
  const testing::Batch batch = testing::random_batch(4, 6, 1);
  learner.arrive(batch.sequences);
  const Architecture& a = model.weights->architecture;
  const std::int64_t trained = a.layers * 3 * a.experts * a.intermediate * a.hidden + a.hidden + 1;
  CHECK(static_cast<std::int64_t>(learner.gradient().size()) == trained);
  CHECK_FALSE(learner.step().skipped);
}

}  // namespace
}  // namespace millrace
