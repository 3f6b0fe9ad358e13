// Every family against Hugging Face transformers (tests/data/models): logits, gradients, the decoder's cache, packs.
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/models/decoder_fixture.hpp"

#include "models/cached_transformer.hpp"
#include "models/experts.hpp"
#include "models/export.hpp"
#include "models/folder_config.hpp"
#include "models/folder_weights.hpp"
#include "models/gguf_weights.hpp"
#include "models/layers.hpp"
#include "models/text/json_file.hpp"
#include "models/text/tokenizer_json.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/text/gguf_bytes.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string golden_folder = MILLRACE_TEST_DATA "/models/";
const std::vector<std::string> all_families = {"llama-tied", "llama-untied", "qwen2-bias", "qwen3", "qwen3-moe"};

SnapshotPtr snapshot_of(const std::string& folder) {
  const auto snapshot = read_folder_weights(folder, 0);
  if (!snapshot) throw std::runtime_error(snapshot.error().message);
  return *snapshot;
}

// The decoder needs a tokenizer only to see where a turn ends: none of these 96 tokens does.
Model model_of(const std::string& name) {
  use_threads(1);
  return {.weights = snapshot_of(golden_folder + name),
          .tokenizer = std::make_shared<const Tokenizer>(Tokenizer::bytes()),
          .name = name};
}

json expected_of(const std::string& name) {
  return json::parse(std::ifstream(golden_folder + name + "/expected.json"));
}

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
    const Pack pack = make_pack(sequences, at::kFloat);
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
      const Pack pack = make_pack(pack_of, at::kFloat);
      const std::size_t place = pack_of[0].tokens == two[0].tokens ? 0 : 1;
      const at::Tensor rows =
          hidden_states(snapshot->architecture, snapshot->weights, pack).index_select(0, at::tensor(pack.rows[place]));
      CHECK((logits_of(snapshot->weights, rows).log_softmax(1) - alone).abs().max().item<float>() < 1e-5f);
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

// llama.cpp's names and order; of Llama files the rows of q and k stand in pairs.
std::string as_gguf(const Snapshot& snapshot, const std::string& family) {
  const Architecture& a = snapshot.architecture;
  const std::map<std::string, std::string> names = {{"input_layernorm", "attn_norm"},
                                                    {"self_attn.q_proj", "attn_q"},
                                                    {"self_attn.k_proj", "attn_k"},
                                                    {"self_attn.v_proj", "attn_v"},
                                                    {"self_attn.o_proj", "attn_output"},
                                                    {"post_attention_layernorm", "ffn_norm"},
                                                    {"mlp.gate_proj", "ffn_gate"},
                                                    {"mlp.up_proj", "ffn_up"},
                                                    {"mlp.down_proj", "ffn_down"},
                                                    {"self_attn.q_norm", "attn_q_norm"},
                                                    {"self_attn.k_norm", "attn_k_norm"},
                                                    {"mlp.gate", "ffn_gate_inp"},
                                                    {"mlp.experts.gate_proj", "ffn_gate_exps"},
                                                    {"mlp.experts.up_proj", "ffn_up_exps"},
                                                    {"mlp.experts.down_proj", "ffn_down_exps"}};
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for_each_tensor(snapshot.weights, a.tied, [&](const std::string& name, const at::Tensor& tensor) {
    std::string mine = name == "lm_head.weight"      ? "output.weight"
                       : name == "model.norm.weight" ? "output_norm.weight"
                                                     : "token_embd.weight";
    at::Tensor stored = tensor;
    if (name.starts_with("model.layers.")) {
      const std::size_t dot = name.find('.', 13), last = name.rfind('.');
      const std::string part = name.substr(dot + 1, last - dot - 1);
      mine = "blk." + name.substr(13, dot - 13) + "." + names.at(part) + name.substr(last);
      const bool is_q = part == "self_attn.q_proj", is_k = part == "self_attn.k_proj";
      if (family == "llama" && (is_q || is_k)) {
        const std::int64_t heads = is_q ? a.heads : a.kv_heads;
        stored = tensor.view({heads, 2, a.head_dim / 2, a.hidden}).transpose(1, 2).reshape(tensor.sizes());
      }
    }
    tensors.emplace_back(mine, stored.contiguous());
  });
  GgufBytes file(tensors.size(), 12);
  const auto integer = [&](const std::string& key, std::int64_t value) {
    file.key(family + "." + key, type_u32).number(static_cast<std::uint32_t>(value));
  };
  file.key("general.architecture", type_text).text(family);
  integer("block_count", a.layers);
  integer("embedding_length", a.hidden);
  integer("feed_forward_length", a.intermediate);
  integer("attention.head_count", a.heads);
  integer("attention.head_count_kv", a.kv_heads);
  integer("attention.key_length", a.head_dim);
  integer("expert_count", a.experts);
  integer("expert_used_count", a.experts_per_token);
  integer("expert_feed_forward_length", a.intermediate);
  file.key(family + ".rope.freq_base", type_f32).number(static_cast<float>(a.rope_theta));
  file.key(family + ".attention.layer_norm_rms_epsilon", type_f32).number(1e-6f);
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    std::vector<std::uint64_t> sizes(tensor.sizes().rbegin(), tensor.sizes().rend());
    file.tensor(name, sizes, 0, offset);
    offset += (tensor.nbytes() + 31) / 32 * 32;
  }
  for (const auto& [name, tensor] : tensors) {
    file.align();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) file.number(tensor.const_data_ptr<float>()[i]);
  }
  return file.align().bytes();
}

TEST_CASE("the same weights come out of a GGUF file of every family") {
  const std::map<std::string, std::string> families = {{"llama-tied", "llama"},
                                                       {"llama-untied", "llama"},
                                                       {"qwen2-bias", "qwen2"},
                                                       {"qwen3", "qwen3"},
                                                       {"qwen3-moe", "qwen3moe"}};
  for (const auto& [name, family] : families) {
    CAPTURE(name);
    const SnapshotPtr right = snapshot_of(golden_folder + name);
    const TemporaryFile bytes(as_gguf(*right, family));
    const auto snapshot = read_weights(GgufFile::open(bytes.path()).value(), 96);
    REQUIRE_MESSAGE(snapshot, snapshot.error().message);
    CHECK(checksum_of(**snapshot) == checksum_of(*right));
    const Tokens tokens = {1, 2, 3, 4, 5};
    const at::Tensor mine = testing::learner_logits(**snapshot, tokens), its = testing::learner_logits(*right, tokens);
    CHECK((mine - its).abs().max().item<float>() < 1e-5f);
  }
}

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

TEST_CASE("what a learner has learned is exported out of its image") {
  const Model model = load_model({.path = "", .random = {.experts = 4}}, 1).value();
  PolicySettings settings;
  settings.lr = 0.1;
  PolicyLearner learner(model, settings, Recipe{});
  const testing::Batch batch = testing::random_batch(3, 5, 2);
  learner.accumulate(batch.sequences, batch.advantages);
  const PolicyStep step = learner.step(7);
  REQUIRE(step.weights);
  const auto image = learner.image();
  const auto weights = weights_of_image(*model.weights, image->tensors(), 7);
  REQUIRE_MESSAGE(weights, weights.error().message);
  CHECK(checksum_of(**weights) == checksum_of(*step.weights));
  CHECK(checksum_of(**weights) != checksum_of(*model.weights));
  CHECK(version_of(**weights) == 7);
  const Model other = load_model({.path = "", .random = {}}, 1).value();
  CHECK_FALSE(weights_of_image(*other.weights, image->tensors(), 7));
}

TEST_CASE("an exported model is loaded again: weights, tokens, template and ends of turns") {
  const TemporaryDirectory temporary;
  const std::string folder = temporary.path() + "/model";
  const Model random = load_model({.path = "", .random = {}}, 3).value();
  REQUIRE(export_model(random, folder));
  CHECK(export_model(random, folder).error().message == folder + ": is there already; give the name of a new folder");
  const auto loaded = load_model({.path = folder, .random = {}}, 0);
  REQUIRE_MESSAGE(loaded, loaded.error().message);
  CHECK(loaded->name == "model");
  CHECK(checksum_of(*loaded->weights) == checksum_of(*random.weights));
  const Vocabulary &before = random.tokenizer->vocabulary(), &after = loaded->tokenizer->vocabulary();
  CHECK(after.tokens == before.tokens);
  CHECK(after.control == before.control);
  CHECK(after.chat_template == before.chat_template);
  CHECK(loaded->tokenizer->eos() == random.tokenizer->eos());
  CHECK(loaded->tokenizer->encode("a b\n€") == random.tokenizer->encode("a b\n€"));
  CHECK_FALSE(fs::exists(folder + ".unfinished"));
}

}  // namespace
}  // namespace millrace
