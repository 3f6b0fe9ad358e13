#include "models/transformer.hpp"

#include <fstream>
#include <limits>

#include "tests/models/learner_fixture.hpp"
#include "tests/models/reference.hpp"
#include "tests/models/safetensors.hpp"

namespace millrace {
namespace {

using nlohmann::json;

struct GoldenModel {
  Architecture architecture;
  Weights weights;
  json expected;
};

json read_json(const std::string& path) { return json::parse(std::ifstream(path)); }

// A tiny model of Hugging Face transformers with the numbers that it gives. Every weight requires a gradient.
GoldenModel golden_model(const std::string& name) {
  const std::string folder = MILLRACE_TEST_DATA "/models/" + name;
  const json config = read_json(folder + "/config.json");
  GoldenModel model;
  model.architecture = {.vocab = config.at("vocab_size"),
                        .hidden = config.at("hidden_size"),
                        .layers = config.at("num_hidden_layers"),
                        .heads = config.at("num_attention_heads"),
                        .kv_heads = config.at("num_key_value_heads"),
                        .head_dim = config.at("head_dim"),
                        .intermediate = config.at("intermediate_size"),
                        .rope_theta = config.at("rope_parameters").at("rope_theta"),
                        .norm_eps = config.at("rms_norm_eps"),
                        .tied = config.at("tie_word_embeddings")};
  auto tensors = testing::read_safetensors(folder + "/model.safetensors");
  model.weights.layers.resize(static_cast<std::size_t>(model.architecture.layers));
  for_each_tensor(model.weights, model.architecture.tied, [&](const std::string& tensor_name, at::Tensor& tensor) {
    tensor = tensors.at(tensor_name).requires_grad_(true);
  });
  if (model.architecture.tied) model.weights.head = model.weights.embedding;
  model.expected = read_json(folder + "/expected.json");
  return model;
}

at::Tensor tensor_of(const json& numbers) {
  const std::vector<std::vector<float>> rows = numbers;
  std::vector<at::Tensor> tensors;
  for (const auto& row : rows) tensors.push_back(at::tensor(row));
  return at::stack(tensors);
}

void check_against_hugging_face(const std::string& name) {
  const GoldenModel model = golden_model(name);
  std::vector<Sequence> sequences;
  for (const Tokens tokens : model.expected.at("input_ids")) sequences.push_back(testing::plain_sequence(tokens));
  const Pack pack = make_pack(sequences);
  const at::Tensor logits = logits_of(model.weights, hidden_states(model.architecture, model.weights, pack));

  std::vector<at::Tensor> losses;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const at::Tensor mine = logits.index_select(0, at::tensor(pack.rows[i]));
    CHECK((mine - tensor_of(model.expected.at("logits")[i])).abs().max().item<float>() < 1e-4f);
    const at::Tensor next = at::tensor(sequences[i].tokens).to(at::kLong).slice(0, 1);
    losses.push_back(-mine.slice(0, 0, -1).log_softmax(1).gather(1, next.unsqueeze(1)));
  }
  at::cat(losses).mean().backward();

  const std::map<std::string, double> norms = model.expected.at("grad_l2");
  std::size_t compared = 0;
  for_each_tensor(model.weights, model.architecture.tied,
                  [&](const std::string& tensor_name, const at::Tensor& tensor) {
                    CAPTURE(tensor_name);
                    CHECK(tensor.grad().norm().item<double>() == doctest::Approx(norms.at(tensor_name)).epsilon(1e-3));
                    ++compared;
                  });
  CHECK(compared == norms.size());
}

TEST_CASE("logits and gradients of a tied Llama are those of Hugging Face") {
  check_against_hugging_face("llama-tied");
}
TEST_CASE("logits and gradients of an untied Llama are those of Hugging Face") {
  check_against_hugging_face("llama-untied");
}

TEST_CASE("frozen weights get no gradient, the others the same as without freezing") {
  const auto gradients = [](bool freeze_attention) {
    GoldenModel model = golden_model("llama-tied");
    for (Layer& layer : model.weights.layers) {
      for (at::Tensor* frozen : {&layer.q, &layer.k, &layer.v, &layer.o}) frozen->requires_grad_(!freeze_attention);
    }
    const Pack pack = make_pack(std::vector{testing::plain_sequence({5, 6, 7, 8})});
    hidden_states(model.architecture, model.weights, pack).square().sum().backward();
    return model.weights;
  };
  const Weights all = gradients(false), some = gradients(true);
  CHECK(all.layers[0].q.grad().defined());
  CHECK_FALSE(some.layers[0].q.grad().defined());
  CHECK(at::allclose(some.layers[0].gate.grad(), all.layers[0].gate.grad(), 1e-5, 1e-6));
  CHECK(at::allclose(some.embedding.grad(), all.embedding.grad(), 1e-5, 1e-6));
}

TEST_CASE("bfloat16 weights are computed in bfloat16 and give nearly the same; logits are float32") {
  const Model model = testing::small_model();
  const Architecture& architecture = model.weights->architecture;
  Weights narrow = model.weights->weights;
  for_each_tensor(narrow, architecture.tied,
                  [](const std::string&, at::Tensor& tensor) { tensor = tensor.to(at::kBFloat16); });
  narrow.head = narrow.embedding;
  const Tokens tokens = {72, 101, 108, 108, 111};
  const Pack pack = make_pack(std::vector{testing::plain_sequence(tokens)});
  const at::Tensor hidden = hidden_states(architecture, narrow, pack);
  CHECK((hidden.scalar_type() == at::kBFloat16));
  const at::Tensor logits = logits_of(narrow, hidden);
  CHECK((logits.scalar_type() == at::kFloat));
  const at::Tensor exact = testing::learner_logits(*model.weights, tokens);
  const double error = ((logits - exact).norm() / exact.norm()).item<double>();
  CHECK(error > 0);
  CHECK(error < 0.03);
}

TEST_CASE("B30: a tied head follows its embedding") {
  Weights weights;
  weights.embedding = at::tensor({1.f, 0.f, 0.f, 1.f, 1.f, 1.f}).view({3, 2});
  weights.head = weights.embedding;
  const at::Tensor hidden = at::tensor({2.f, 3.f}).view({1, 2});
  CHECK(at::equal(logits_of(weights, hidden), at::tensor({2.f, 3.f, 5.f}).view({1, 3})));
  weights.embedding[2].copy_(at::tensor({2.f, 1.f}));
  CHECK(at::equal(logits_of(weights, hidden), at::tensor({2.f, 3.f, 7.f}).view({1, 3})));
}

std::string refusal(const std::function<void(Weights&)>& spoil) {
  const Model model = testing::small_model();
  Weights weights = model.weights->weights;
  spoil(weights);
  const expected<void> checked = check_weights(model.weights->architecture, weights);
  return checked ? "" : checked.error().message;
}

TEST_CASE("B20: weights that do not fit are refused by the name of the tensor") {
  const auto spoilt = [](const at::Tensor& tensor, float value) {
    at::Tensor copy = tensor.clone();
    copy.view(-1)[1] = value;
    return copy;
  };
  CHECK(refusal([](Weights&) {}) == "");
  CHECK(refusal([](Weights& w) { w.layers[1].up = at::Tensor(); }) ==
        "model.layers.1.mlp.up_proj.weight: missing, expected [48, 32]");
  CHECK(refusal([](Weights& w) { w.layers[0].k = w.layers[0].q; }) ==
        "model.layers.0.self_attn.k_proj.weight: shape [32, 32], expected [16, 32]");
  CHECK(refusal([&](Weights& w) { w.final_norm = spoilt(w.final_norm, std::numeric_limits<float>::quiet_NaN()); }) ==
        "model.norm.weight: a value is not finite");
  CHECK(refusal([&](Weights& w) { w.layers[0].o = spoilt(w.layers[0].o, std::numeric_limits<float>::infinity()); }) ==
        "model.layers.0.self_attn.o_proj.weight: a value is not finite");
  CHECK(refusal([](Weights& w) { w.final_norm = at::full({32}, 3e38f); }) == "");  // finite, although the sum is not
  CHECK(refusal([](Weights& w) { w.layers.pop_back(); }) == "model.layers: 1 of them, expected 2");
  CHECK(refusal([](Weights& w) { w.head = w.embedding.clone(); }) ==
        "lm_head.weight: is not the embedding, although the two are tied");
}

}  // namespace
}  // namespace millrace
