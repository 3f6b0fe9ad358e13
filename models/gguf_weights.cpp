#include "models/gguf_weights.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace millrace {

namespace {

// GGUF's names for the tensors of a layer, by ours.
const std::map<std::string, std::string> layer_names = {
    {"input_layernorm", "attn_norm"}, {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},           {"mlp.down_proj", "ffn_down"}};

std::string gguf_name(const std::string& name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  // model.layers.N.PART.weight
  const auto number_begin = std::string("model.layers.").size();
  const auto number_end = name.find('.', number_begin);
  const auto part = name.substr(number_end + 1, name.size() - number_end - 1 - std::string(".weight").size());
  return "blk." + name.substr(number_begin, number_end - number_begin) + "." + layer_names.at(part) + ".weight";
}

// Reads values of keys llama.*, one after the other, and keeps the first error.
class LlamaKeys {
 public:
  explicit LlamaKeys(const GgufFile& file) : file_(file) {}

  void size(const std::string& key, std::int64_t& into) {
    const auto value = file_.integer("llama." + key);
    if (!value) return refuse(value.error().message);
    if (*value < 1 || *value > 1'000'000) return refuse(key, std::to_string(*value), "from 1 to 1000000");
    into = *value;
  }
  void number_if_there(const std::string& key, double& into) {
    if (!file_.has("llama." + key)) return;
    const auto value = file_.number("llama." + key);
    if (!value) return refuse(value.error().message);
    into = *value;
  }
  // What we compute with, whatever the file says: another value is an error.
  void must_be(const std::string& key, std::int64_t right) {
    if (!file_.has("llama." + key)) return;
    const auto value = file_.integer("llama." + key);
    if (!value) return refuse(value.error().message);
    if (*value != right) refuse(key, std::to_string(*value), std::to_string(right));
  }
  bool has(const std::string& key) const { return file_.has("llama." + key); }
  void refuse(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }
  const std::string& error() const { return error_; }

 private:
  void refuse(const std::string& key, const std::string& is, const std::string& right) {
    refuse("llama." + key + ": is " + is + ", must be " + right);
  }
  const GgufFile& file_;
  std::string error_;
};

expected<Architecture> read_architecture(const GgufFile& file, std::int64_t vocab) {
  const expected<std::string> kind = file.text("general.architecture");
  if (!kind) return tl::unexpected(kind.error());
  if (*kind != "llama") return fail("general.architecture: \"" + *kind + "\" is not \"llama\"");

  LlamaKeys keys(file);
  Architecture a;
  a.vocab = vocab;
  a.tied = !file.tensors().contains("output.weight");
  keys.size("block_count", a.layers);
  keys.size("embedding_length", a.hidden);
  keys.size("feed_forward_length", a.intermediate);
  keys.size("attention.head_count", a.heads);
  a.kv_heads = a.heads;
  if (keys.has("attention.head_count_kv")) keys.size("attention.head_count_kv", a.kv_heads);
  keys.number_if_there("rope.freq_base", a.rope_theta);
  keys.number_if_there("attention.layer_norm_rms_epsilon", a.norm_eps);
  if (!keys.error().empty()) return fail(keys.error());

  if (const auto heads = check_heads(a); !heads) return fail("llama.attention.head_count: " + heads.error().message);
  a.head_dim = a.hidden / a.heads;
  for (const char* key : {"rope.dimension_count", "attention.key_length", "attention.value_length"}) {
    keys.must_be(key, a.head_dim);
  }
  if (keys.has("rope.scaling.type") && file.text("llama.rope.scaling.type").value_or("") != "none") {
    keys.refuse("llama.rope.scaling.type: only \"none\" is known");
  }
  if (!keys.error().empty()) return fail(keys.error());
  return a;
}

// Llama files hold the rows of q and k in pairs, for interleaved rotary embedding; ours rotates halves.
at::Tensor halves_from_pairs(const at::Tensor& rows, std::int64_t heads) {
  const std::int64_t half = rows.size(0) / heads / 2;
  return rows.view({heads, half, 2, rows.size(1)}).transpose(1, 2).reshape(rows.sizes());
}

// `may_be_padded`: more rows than asked for are fine, the last ones are dropped.
expected<at::Tensor> read_tensor(const GgufFile& file, const std::string& name, const std::vector<std::int64_t>& shape,
                                 bool may_be_padded) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) return fail("tensor " + name + " is missing");
  const GgufTensor& stored = found->second;
  std::vector<std::int64_t> wanted = shape;
  if (may_be_padded) wanted[0] = std::max(wanted[0], stored.shape[0]);
  if (stored.shape != wanted) {
    return fail("tensor " + name + ": shape " + text_of(stored.shape) + ", expected " + text_of(shape));
  }
  at::Tensor tensor = at::empty(wanted, at::kFloat);
  dequantise(stored, {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())});
  return wanted == shape ? tensor : tensor.narrow(0, 0, shape[0]).clone();
}

}  // namespace

expected<SnapshotPtr> read_weights(const GgufFile& file, std::int64_t vocab) {
  const expected<Architecture> architecture = read_architecture(file, vocab);
  if (!architecture) return tl::unexpected(architecture.error());
  const Architecture& a = *architecture;
  Weights weights;
  weights.layers.resize(static_cast<std::size_t>(a.layers));
  std::set<std::string> known;
  expected<void> result;
  for_each_tensor(weights, a.tied, [&](const std::string& name, at::Tensor& into) {
    if (!result) return;
    const bool is_vocabulary = name == "model.embed_tokens.weight" || name == "lm_head.weight";
    expected<at::Tensor> tensor = read_tensor(file, gguf_name(name), shape_of(a, name), is_vocabulary);
    if (!tensor) {
      result = tl::unexpected(tensor.error());
      return;
    }
    known.insert(gguf_name(name));
    into = std::move(*tensor);
    if (name.ends_with("q_proj.weight")) into = halves_from_pairs(into, a.heads);
    if (name.ends_with("k_proj.weight")) into = halves_from_pairs(into, a.kv_heads);
  });
  if (!result) return tl::unexpected(result.error());
  for (const auto& entry : file.tensors()) {
    if (!known.contains(entry.first)) return fail("tensor " + entry.first + ": a Llama model has none of that name");
  }
  if (a.tied) weights.head = weights.embedding;
  if (expected<void> checked = check_weights(a, weights); !checked) return tl::unexpected(checked.error());
  return std::make_shared<const Snapshot>(Version{0}, a, std::move(weights));
}

}  // namespace millrace
