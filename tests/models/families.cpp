// Every family against Hugging Face transformers (tests/data/models): logits, gradients, the decoder's cache, packs.
#include <filesystem>

#include "tests/models/families_fixture.hpp"

#include "models/export.hpp"
#include "models/folder_config.hpp"
#include "models/layers.hpp"
#include "models/text/json_file.hpp"
#include "models/text/tokenizer_json.hpp"
#include "tests/temporary_directory.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::all_families, testing::golden_folder, testing::snapshot_of, testing::model_of, testing::expected_of;

at::Tensor tensor_of(const json& numbers) {
  std::vector<at::Tensor> rows;
  for (const auto& row : numbers) rows.push_back(at::tensor(row.get<std::vector<float>>()));
  return at::stack(rows);
}

std::vector<Sequence> sequences_of(const json& expected) {
  std::vector<Sequence> sequences;
  for (const Tokens tokens : expected.at("input_ids")) sequences.push_back(testing::plain_sequence(tokens));
  return sequences;
}

TEST_CASE("logits, log-probs and gradients are those of Hugging Face, in one pack") {
  for (const std::string& name : all_families) {
    CAPTURE(name);
    const SnapshotPtr snapshot = snapshot_of(golden_folder + name);
    const json expected = expected_of(name);
    Weights weights = snapshot->weights;
    const Architecture& a = snapshot->architecture;
    for_each_tensor(weights, a.tied, [](const std::string&, at::Tensor& tensor) {
      tensor = tensor.detach().clone().requires_grad_(true);
    });
    if (a.tied) weights.head = weights.embedding;
    const std::vector<Sequence> sequences = sequences_of(expected);
    const Pack pack = make_pack(sequences);
    const at::Tensor logits = logits_of(weights, hidden_states(a, weights, pack));
    std::vector<at::Tensor> losses;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const at::Tensor mine = logits.index_select(0, at::tensor(pack.rows[i]));
      CHECK((mine - tensor_of(expected.at("logits")[i])).abs().max().item<float>() < 1e-4f);
      const at::Tensor next = at::tensor(sequences[i].tokens).to(at::kLong).slice(0, 1);
      const at::Tensor logp = mine.slice(0, 0, -1).log_softmax(1).gather(1, next.unsqueeze(1)).squeeze(1);
      const auto right = expected.at("token_logprobs")[i].get<std::vector<float>>();
      CHECK((logp - at::tensor(right)).abs().max().item<float>() < 1e-4f);
      losses.push_back(-logp);
    }
    at::cat(losses).mean().backward();

    std::map<std::string, double> squares;  // under Hugging Face's names: it holds gate and up of all experts together
    for_each_tensor(weights, a.tied, [&](std::string tensor_name, const at::Tensor& tensor) {
      const double square = tensor.grad().square().sum().item<double>();
      for (const char* part : {"gate_proj.weight", "up_proj.weight"}) {
        const std::string stacked = std::string("experts.") + part;
        if (tensor_name.ends_with(stacked))
          tensor_name.replace(tensor_name.size() - stacked.size(), stacked.size(), "experts.gate_up_proj");
      }
      if (tensor_name.ends_with("experts.down_proj.weight")) tensor_name.resize(tensor_name.size() - 7);
      squares[tensor_name] += square;
    });
    const std::map<std::string, double> norms = expected.at("grad_l2");
    CHECK(squares.size() == norms.size());
    for (const auto& [tensor_name, norm] : norms) {
      CAPTURE(tensor_name);
      CHECK(std::sqrt(squares[tensor_name]) == doctest::Approx(norm).epsilon(1e-3));
    }
  }
}

TEST_CASE("the cached decoder reports what the learner computes, in a batch and alone") {
  for (const std::string& name : all_families) {
    CAPTURE(name);
    const Model model = model_of(name);
    const json expected = expected_of(name);
    Decoder decoder(model, {});
    std::vector<Tokens> prompts;
    for (const Tokens tokens : expected.at("input_ids")) {
      prompts.push_back(tokens);
      prompts.emplace_back(tokens.begin(), tokens.begin() + 5);
      prompts.push_back({tokens[0]});
      prompts.emplace_back(tokens.begin() + 2, tokens.begin() + 9);
    }
    const double temperature = 0.8;
    const auto sampling = [&](TurnId id) { return Sampling{.temperature = temperature, .max_tokens = 20, .seed = id}; };
    for (TurnId id = 0; id < prompts.size(); ++id) REQUIRE(decoder.start(id, prompts[id], sampling(id)));
    for (const auto& [id, turn] : testing::run(decoder)) {
      CAPTURE(id);
      CHECK(turn.tokens.size() == 20);
      CHECK(testing::distance_to_learner(model, prompts[id], turn, temperature) < 1e-4);  // B02
      CHECK(testing::alone(model, prompts[id], sampling(id)).tokens == turn.tokens);
    }
  }
}

TEST_CASE("B16: what else is in a pack changes nothing") {
  for (const std::string& name : all_families) {
    CAPTURE(name);
    const SnapshotPtr snapshot = snapshot_of(golden_folder + name);
    const std::vector<Sequence> two = sequences_of(expected_of(name));
    const at::Tensor alone = testing::learner_logits(*snapshot, two[0].tokens).log_softmax(1);
    for (const auto& pack_of :
         {std::vector{two[0], two[1]}, std::vector{two[1], two[0]}, std::vector{two[0], two[0]}}) {
      const Pack pack = make_pack(pack_of);
      const std::size_t place = pack_of[0].tokens == two[0].tokens ? 0 : 1;
      const at::Tensor rows =
          hidden_states(snapshot->architecture, snapshot->weights, pack).index_select(0, at::tensor(pack.rows[place]));
      CHECK((logits_of(snapshot->weights, rows).log_softmax(1) - alone).abs().max().item<float>() < 2e-5f);
    }
  }
}

TEST_CASE("a folder that was written is read as the same model, and names its tensors as Hugging Face does") {
  for (const std::string& name : all_families) {
    CAPTURE(name);
    const TemporaryDirectory folder;
    const SnapshotPtr snapshot = snapshot_of(golden_folder + name);
    REQUIRE(write_folder_weights(folder.path(), *snapshot));
    CHECK(checksum_of(*snapshot_of(folder.path())) == checksum_of(*snapshot));
    const auto header = [](const std::string& path) {
      std::ifstream file(path + "/model.safetensors", std::ios::binary);
      std::uint64_t size = 0;
      file.read(reinterpret_cast<char*>(&size), sizeof size);
      std::string text(size, ' ');
      file.read(text.data(), static_cast<std::streamsize>(size));
      std::map<std::string, json> shapes;
      const json parsed = json::parse(text);
      for (const auto& [key, entry] : parsed.items()) {
        if (key != "__metadata__") shapes[key] = entry.at("shape");
      }
      return shapes;
    };
    CHECK(header(folder.path()) == header(golden_folder + name));  // B30: a tied head once
    // Every field that transformers computes with.
    const json mine = read_json_object(folder.path() + "/config.json").value();
    const json its = read_json_object(golden_folder + name + "/config.json").value();
    for (const auto& [key, value] : its.items()) {
      const bool is_used = key != "intermediate_size" || name != "qwen3-moe";  // there it is for dense layers
      if (mine.contains(key) && is_used) CHECK_MESSAGE(mine[key] == value, key);
    }
  }
}

// A copy of a golden model whose files can be spoilt.
class Spoilt {
 public:
  explicit Spoilt(const std::string& name) {
    fs::copy(golden_folder + name, folder_.path(), fs::copy_options::recursive);
  }
  std::string path() const { return folder_.path(); }
  void config(const std::string& key, const json& value) {
    json config = read_json_object(path() + "/config.json").value();
    config[key] = value;
    std::ofstream(path() + "/config.json") << config;
  }
  std::string error() const {
    const auto snapshot = read_folder_weights(path(), 0);
    if (snapshot) return "";
    CHECK(snapshot.error().message.starts_with(path()));
    return snapshot.error().message.substr(path().size());
  }

 private:
  TemporaryDirectory folder_;
};

TEST_CASE("B29, B30: a folder that does not fit together is refused by the name of field or tensor") {
  const auto error = [](const std::string& name, const std::string& key, const json& value) {
    Spoilt folder(name);
    folder.config(key, value);
    return folder.error();
  };
  CHECK(error("qwen3", "x", 1) == "");
  CHECK(error("llama-tied", "tie_word_embeddings", false) == ": tensor lm_head.weight is missing");
  CHECK(error("llama-untied", "tie_word_embeddings", true) ==
        "");  // the head of its own is not used, as in transformers
  CHECK(error("qwen3", "model_type", "mamba") ==
        "/config.json: model_type: \"mamba\" is unknown: known are llama, qwen2, qwen3, qwen3_moe");
  CHECK(error("qwen3", "model_type", 5).starts_with("/config.json: model_type: \"\" is unknown"));
  CHECK(error("qwen3", "model_type", "llama") ==
        ": tensor model.layers.0.self_attn.k_norm.weight: a model of type llama has none of that name");
  CHECK(error("llama-tied", "model_type", "qwen2") == ": tensor model.layers.0.self_attn.q_proj.bias is missing");
  CHECK(error("qwen3", "hidden_size", 33) == ": tensor model.embed_tokens.weight: shape [96, 32], expected [96, 33]");
  CHECK(error("qwen3", "hidden_size", 1'000'000'000).starts_with(": tensor model.embed_tokens.weight: shape [96, 32]"));
  CHECK(error("qwen3", "hidden_size", "x") == "/config.json: hidden_size: must be a whole number from 1 to 1000000000");
  CHECK(error("qwen3", "hidden_size", nullptr) == "/config.json: hidden_size: is missing");
  CHECK(error("qwen3", "num_hidden_layers", 3) == ": tensor model.layers.2.input_layernorm.weight is missing");
  CHECK(error("qwen3", "num_hidden_layers", 1'000'000'000).starts_with(": num_hidden_layers: 1000000000 layers"));
  CHECK(error("qwen3", "num_key_value_heads", 3) ==
        "/config.json: num_attention_heads: 4 heads are not divided by 3 key-value heads");
  CHECK(error("qwen3", "hidden_act", "gelu") ==
        "/config.json: hidden_act: must be \"silu\", this is not supported: \"gelu\"");
  CHECK(error("qwen3", "rope_scaling", {{"rope_type", "yarn"}}) ==
        "/config.json: rope_scaling: rope_type: only \"default\" and \"llama3\" are supported");
  CHECK(error("qwen3", "rope_scaling", {{"rope_type", "llama3"}}) == "/config.json: rope_scaling: factor: is missing");
  CHECK(error("qwen3", "use_sliding_window", true).starts_with("/config.json: use_sliding_window: must be false"));
  CHECK(error("qwen3-moe", "num_local_experts", 9) ==
        ": tensor model.layers.0.mlp.gate.weight: shape [8, 32], expected [9, 32]");
  CHECK(error("qwen3-moe", "num_experts_per_tok", 9) ==
        "/config.json: num_experts_per_tok: must be at most the number of experts");
  CHECK(error("qwen3-moe", "decoder_sparse_step", 2).starts_with("/config.json: decoder_sparse_step: must be 1"));
  CHECK(error("llama-tied", "quantization_config", json::object()).starts_with("/config.json: quantization_config"));
  CHECK(read_folder_weights(golden_folder + "qwen3", 97).error().message ==
        golden_folder + "qwen3/config.json: vocab_size: 96 is less than the tokenizer's 97 tokens");
  CHECK(read_folder_weights("/nowhere", 0).error().message ==
        "/nowhere/config.json: there is no such file, or it cannot be read");

  Spoilt cut("qwen3");
  fs::resize_file(cut.path() + "/model.safetensors", fs::file_size(cut.path() + "/model.safetensors") - 1);
  CHECK(cut.error().starts_with("/model.safetensors: tensor \"model.norm.weight\": data_offsets: "));
}

TEST_CASE("B04: rows of the embedding and the head beyond the tokenizer's tokens are gone") {
  const auto snapshot = read_folder_weights(golden_folder + "llama-untied", 90);
  REQUIRE_MESSAGE(snapshot, snapshot.error().message);
  const SnapshotPtr whole = snapshot_of(golden_folder + "llama-untied");
  CHECK((*snapshot)->architecture.vocab == 90);
  CHECK(at::equal((*snapshot)->weights.head, whole->weights.head.narrow(0, 0, 90)));
  CHECK(at::equal((*snapshot)->weights.embedding, whole->weights.embedding.narrow(0, 0, 90)));
}

TEST_CASE("B20: biases and norms of heads are checked as all other weights") {
  const auto error = [](const std::string& name, const std::function<void(Weights&)>& spoil) {
    const SnapshotPtr snapshot = snapshot_of(golden_folder + name);
    Weights weights = snapshot->weights;
    spoil(weights);
    const auto checked = check_weights(snapshot->architecture, weights);
    return checked ? "" : checked.error().message;
  };
  CHECK(error("qwen2-bias", [](Weights& w) { w.layers[1].k_bias = at::Tensor(); }) ==
        "model.layers.1.self_attn.k_proj.bias: missing");
  CHECK(error("qwen3", [](Weights& w) { w.layers[0].q_norm = at::Tensor(); }) ==
        "model.layers.0.self_attn.q_norm.weight: missing");
  CHECK(error("qwen3", [](Weights& w) { w.layers[0].router = w.final_norm; }) ==
        "model.layers.0.mlp.gate.weight: there is none in this architecture");
  CHECK(error("qwen3-moe", [](Weights& w) { w.layers[0].up = w.layers[0].down; }) ==
        "model.layers.0.mlp.experts.up_proj.weight: shape [8, 32, 24], expected [8, 24, 32]");
}

// Frequencies by transformers' formula for rope type "llama3", in Python.
TEST_CASE("Llama 3.1 stretches its low frequencies") {
  Architecture a = {.head_dim = 16, .rope_theta = 500000.0};
  a.rope_scaling = {.factor = 8, .low_frequency_factor = 1, .high_frequency_factor = 4, .original_context = 8192};
  const Rotary rotary = rotary_of(a, at::tensor({1.0f}));
  const at::Tensor angles = at::asin(rotary.sin.view({8}).slice(0, 1));
  const at::Tensor right = at::tensor(
      {0.193922745f, 0.0376060309f, 0.00729266474f, 0.000524846161f, 3.4281022e-05f, 6.64786987e-06f, 1.28917317e-06f});
  CHECK(at::allclose(angles, right, 1e-4, 1e-9));
}

}  // namespace
}  // namespace millrace
