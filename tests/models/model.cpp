#include "models/model.hpp"

#include <cmath>

#include "tests/models/reference.hpp"
#include "tests/text/gguf_bytes.hpp"
#include "tests/text/smollm2.hpp"

namespace millrace {
namespace {

// A GGUF file of one layer: 6 tokens, hidden size 4, 2 heads over 1 key-value head. A tensor can be left out, renamed
// or given another size. All values are 0 except where `values` says otherwise.
struct TinyFile {
  std::vector<std::pair<std::string, std::vector<std::uint64_t>>> tensors = {
      {"token_embd.weight", {4, 6}},     {"blk.0.attn_norm.weight", {4}},   {"blk.0.attn_q.weight", {4, 4}},
      {"blk.0.attn_k.weight", {4, 2}},   {"blk.0.attn_v.weight", {4, 2}},   {"blk.0.attn_output.weight", {4, 4}},
      {"blk.0.ffn_norm.weight", {4}},    {"blk.0.ffn_gate.weight", {4, 8}}, {"blk.0.ffn_up.weight", {4, 8}},
      {"blk.0.ffn_down.weight", {8, 4}}, {"output_norm.weight", {4}}};
  std::map<std::string, std::vector<float>> values;
  std::string architecture = "llama";
  std::uint32_t heads = 2;

  std::vector<std::uint64_t>& sizes(const std::string& name) {
    for (auto& [tensor, size] : tensors) {
      if (tensor == name) return size;
    }
    throw std::out_of_range(name);
  }

  std::string bytes() const {
    GgufBytes file(tensors.size(), 12);
    file.key("general.architecture", type_text).text(architecture);
    file.key("llama.block_count", type_u32).number<std::uint32_t>(1);
    file.key("llama.embedding_length", type_u32).number<std::uint32_t>(4);
    file.key("llama.attention.head_count", type_u32).number(heads);
    file.key("llama.attention.head_count_kv", type_u32).number<std::uint32_t>(1);
    file.key("llama.feed_forward_length", type_u32).number<std::uint32_t>(8);
    file.key("tokenizer.ggml.model", type_text).text("gpt2");
    file.key("tokenizer.ggml.pre", type_text).text("smollm");
    file.texts("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e", "<|im_end|>"});
    file.texts("tokenizer.ggml.merges", {});
    file.integers("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 3});
    file.key("tokenizer.ggml.eos_token_id", type_u32).number<std::uint32_t>(5);
    std::uint64_t offset = 0;
    for (const auto& [name, size] : tensors) {
      file.tensor(name, size, 0, offset);
      offset += (count(size) * sizeof(float) + 31) / 32 * 32;
    }
    for (const auto& [name, size] : tensors) {
      file.align();
      std::vector<float> data(count(size));
      if (const auto given = values.find(name); given != values.end()) data = given->second;
      for (const float value : data) file.number(value);
    }
    return file.align().bytes();
  }

  static std::uint64_t count(const std::vector<std::uint64_t>& size) {
    std::uint64_t product = 1;
    for (const std::uint64_t extent : size) product *= extent;
    return product;
  }
};

expected<Model> load(const TinyFile& tiny) {
  const TemporaryFile file(tiny.bytes());
  return load_model({.path = file.path(), .random = {}}, 0);
}

bool refused_with(const TinyFile& tiny, const std::string& text) {
  const expected<Model> model = load(tiny);
  if (model) return false;
  INFO(model.error().message);
  CHECK(model.error().message.ends_with(text));
  return true;
}

const Model& smollm2_model() {
  static const Model model = load_model({.path = smollm2_path, .random = {}}, 0).value();
  return model;
}

TEST_CASE("SmolLM2 has the architecture of its file") {
  const Architecture& a = smollm2_model().weights->architecture;
  CHECK(a.vocab == 49152);
  CHECK(a.hidden == 576);
  CHECK(a.layers == 30);
  CHECK(a.heads == 9);
  CHECK(a.kv_heads == 3);
  CHECK(a.head_dim == 64);
  CHECK(a.intermediate == 1536);
  CHECK(a.rope_theta == 100000);
  CHECK(a.norm_eps == doctest::Approx(1e-5));
  CHECK(a.tied);
  CHECK(version_of(*smollm2_model().weights) == 0);
  CHECK(smollm2_model().name == "SmolLM2-135M-Instruct.Q4_1");
}

TEST_CASE("SmolLM2's log-probs are those of transformers") {
  for (const auto& text : golden().at("logprobs")) {
    const Tokens tokens = text.at("ids");
    const std::vector<float> right = text.at("token_logprobs");
    CHECK(testing::distance(testing::learner_logp(*smollm2_model().weights, tokens, 1), right) < 1e-3);
  }
}

TEST_CASE("a random model follows from its settings and seed") {
  const auto random = [](std::uint64_t seed) { return load_model({.path = "", .random = {}}, seed).value(); };
  const Model model = random(1);
  const Architecture& a = model.weights->architecture;
  CHECK(a.vocab == static_cast<std::int64_t>(Tokenizer::bytes().size()));
  CHECK(a.hidden == 64);
  CHECK(a.head_dim == 16);
  CHECK(check_weights(a, model.weights->weights));
  CHECK(at::equal(model.weights->weights.final_norm, at::ones({64})));
  const at::Tensor& matrix = model.weights->weights.layers[1].gate;  // 8192 values
  CHECK(matrix.std().item<double>() == doctest::Approx(0.02).epsilon(0.05));
  CHECK(std::abs(matrix.mean().item<double>()) < 0.002);

  CHECK(checksum_of(*random(1).weights) == checksum_of(*model.weights));
  CHECK(checksum_of(*random(2).weights) != checksum_of(*model.weights));
}

TEST_CASE("a random model of an impossible shape is refused") {
  const auto error = [](RandomModelSettings shape) {
    const expected<Model> model = load_model({.path = "", .random = shape}, 0);
    return model ? "" : model.error().message;
  };
  CHECK(error({.hidden = 64, .heads = 5}).starts_with("model.random"));
  CHECK(error({.heads = 4, .kv_heads = 3}).starts_with("model.random"));
  CHECK(error({.hidden = 60, .heads = 4}).starts_with("model.random"));  // heads of 15: no halves to rotate
}

TEST_CASE("a checksum sees a single bit of any weight") {
  const Model model = load_model({.path = "", .random = {}}, 1).value();
  Weights weights = model.weights->weights;
  weights.layers[1].down = weights.layers[1].down.clone();
  weights.layers[1].down.data_ptr<float>()[77] *= 1.0000002f;
  CHECK(checksum_of(Snapshot(0, model.weights->architecture, weights)) != checksum_of(*model.weights));
}

TEST_CASE("weights come out of a file as they went in; rows of q and k are put back in order") {
  TinyFile tiny;
  tiny.values["blk.0.attn_v.weight"] = {1, 2, 3, 4, 5, 6, 7, 8};
  // Two heads of two rows each: pairs and halves of a head of two are the same. Rows keep their order.
  tiny.values["blk.0.attn_q.weight"] = {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4};
  tiny.heads = 2;
  const Model two_heads = load(tiny).value();
  CHECK(at::equal(two_heads.weights->weights.layers[0].v, at::arange(1, 9, at::kFloat).view({2, 4})));
  const auto first_column = [](const at::Tensor& matrix) { return matrix.select(1, 0).contiguous(); };
  CHECK(at::equal(first_column(two_heads.weights->weights.layers[0].q), at::tensor({1.f, 2.f, 3.f, 4.f})));

  // One head of four rows: the file's pairs (0, 1), (2, 3) are our (0, 2), (1, 3).
  tiny.heads = 1;
  tiny.sizes("blk.0.attn_k.weight") = tiny.sizes("blk.0.attn_v.weight") = {4, 4};
  tiny.values.erase("blk.0.attn_v.weight");
  const Model one_head = load(tiny).value();
  CHECK(at::equal(first_column(one_head.weights->weights.layers[0].q), at::tensor({1.f, 3.f, 2.f, 4.f})));
}

TEST_CASE("B04: rows of the head beyond the tokenizer's tokens are gone") {
  TinyFile tiny;
  tiny.sizes("token_embd.weight") = {4, 8};
  std::vector<float> rows(32, 0.f);
  const std::array column = {1.f, 0.f, 0.f, -1.f, 0.5f, 0.2f, 20.f, 18.f};
  for (std::size_t row = 0; row < 8; ++row) rows[row * 4] = column[row];
  tiny.values["token_embd.weight"] = rows;
  const Model model = load(tiny).value();
  CHECK(model.weights->architecture.vocab == 6);
  const at::Tensor logits = logits_of(model.weights->weights, at::tensor({1.f, 0.f, 0.f, 0.f}).view({1, 4}));
  CHECK(logits.size(1) == 6);
  CHECK(logits.log_softmax(1)[0][0].item<float>() == doctest::Approx(-1.073962));
}

TEST_CASE("B30: what a file lacks or has too much is an error, never random weights") {
  TinyFile missing;
  missing.tensors.erase(missing.tensors.begin() + 7);
  CHECK(refused_with(missing, "tensor blk.0.ffn_gate.weight is missing"));

  TinyFile shape;
  shape.sizes("blk.0.ffn_up.weight") = {4, 7};
  CHECK(refused_with(shape, "tensor blk.0.ffn_up.weight: shape [7, 4], expected [8, 4]"));

  TinyFile few;
  few.sizes("token_embd.weight") = {4, 5};
  CHECK(refused_with(few, "tensor token_embd.weight: shape [5, 4], expected [6, 4]"));

  TinyFile bias;
  bias.tensors.push_back({"blk.0.attn_q.bias", {4}});
  CHECK(refused_with(bias, "tensor blk.0.attn_q.bias: a model of type llama has none of that name"));

  TinyFile number;
  number.values["output_norm.weight"] = {1, 1, NAN, 1};
  CHECK(refused_with(number, "model.norm.weight: a value is not finite"));

  TinyFile other;
  other.architecture = "mamba";
  CHECK(refused_with(other, "general.architecture: \"mamba\" is none of llama, qwen2, qwen3, qwen3moe"));

  TinyFile heads;
  heads.heads = 3;
  CHECK(refused_with(heads, "llama.attention.head_count: 4 hidden values are not divided by 3 heads"));

  CHECK(load_model({.path = "/nowhere/model.gguf", .random = {}}, 0).error().message.find("/nowhere/model.gguf") !=
        std::string::npos);
}

}  // namespace
}  // namespace millrace
