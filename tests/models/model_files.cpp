// Models out of GGUF files of every family, and exported as folders.
#include <filesystem>

#include "tests/models/families_fixture.hpp"

#include "models/export.hpp"
#include "models/gguf_weights.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/text/gguf_bytes.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using testing::golden_folder, testing::snapshot_of;

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
