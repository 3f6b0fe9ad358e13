#include "models/gguf_weights.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace millrace {

namespace {

// GGUF's names for the tensors of a layer, by ours.
const std::map<std::string, std::string> layer_names = {{"input_layernorm", "attn_norm"},
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

std::string gguf_name(const std::string& name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  // model.layers.N.PART.weight or .bias
  const auto number_begin = std::string("model.layers.").size();
  const auto number_end = name.find('.', number_begin);
  const auto part_end = name.rfind('.');
  const auto part = name.substr(number_end + 1, part_end - number_end - 1);
  return "blk." + name.substr(number_begin, number_end - number_begin) + "." + layer_names.at(part) +
         name.substr(part_end);
}

// GGUF's names of the families, by ours.
const std::map<std::string, std::string> families = {
    {"llama", "llama"}, {"qwen2", "qwen2"}, {"qwen3", "qwen3"}, {"qwen3moe", "qwen3_moe"}};

// Reads values of a family's keys, llama.* for one, one after the other, and keeps the first error.
class Keys {
 public:
  Keys(const GgufFile& file, std::string family) : file_(file), prefix_(std::move(family) + ".") {}

  void size(const std::string& key, std::int64_t& into) {
    const auto value = file_.integer(prefix_ + key);
    if (!value) return refuse(value.error().message);
    if (*value < 1 || *value > 1'000'000) return refuse(key, std::to_string(*value), "from 1 to 1000000");
    into = *value;
  }
  void number_if_there(const std::string& key, double& into) {
    if (!file_.has(prefix_ + key)) return;
    const auto value = file_.number(prefix_ + key);
    if (!value) return refuse(value.error().message);
    into = *value;
  }
  // What we compute with, whatever the file says: another value is an error.
  void must_be(const std::string& key, std::int64_t right) {
    if (!file_.has(prefix_ + key)) return;
    const auto value = file_.integer(prefix_ + key);
    if (!value) return refuse(value.error().message);
    if (*value != right) refuse(key, std::to_string(*value), std::to_string(right));
  }
  bool has(const std::string& key) const { return file_.has(prefix_ + key); }
  void refuse(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }
  const std::string& error() const { return error_; }

 private:
  void refuse(const std::string& key, const std::string& is, const std::string& right) {
    refuse(prefix_ + key + ": is " + is + ", must be " + right);
  }
  const GgufFile& file_;
  const std::string prefix_;
  std::string error_;
};

expected<Architecture> read_architecture(const GgufFile& file, std::int64_t vocab) {
  const expected<std::string> kind = file.text("general.architecture");
  if (!kind) return tl::unexpected(kind.error());
  const auto family = families.find(*kind);
  if (family == families.end()) {
    return fail("general.architecture: \"" + *kind + "\" is none of llama, qwen2, qwen3, qwen3moe");
  }

  Keys keys(file, *kind);
  Architecture a;
  a.family = family->second;
  a.qkv_bias = a.family == "qwen2";
  a.qk_norm = a.family.starts_with("qwen3");
  a.vocab = vocab;
  a.tied = !file.tensors().contains("output.weight");
  keys.size("block_count", a.layers);
  keys.size("embedding_length", a.hidden);
  if (a.family == "qwen3_moe") {
    keys.size("expert_count", a.experts);
    keys.size("expert_used_count", a.experts_per_token);
    keys.size("expert_feed_forward_length", a.intermediate);
  } else {
    keys.size("feed_forward_length", a.intermediate);
  }
  keys.size("attention.head_count", a.heads);
  a.kv_heads = a.heads;
  if (keys.has("attention.head_count_kv")) keys.size("attention.head_count_kv", a.kv_heads);
  keys.number_if_there("rope.freq_base", a.rope_theta);
  keys.number_if_there("attention.layer_norm_rms_epsilon", a.norm_eps);
  if (!keys.error().empty()) return fail(keys.error());

  if (keys.has("attention.key_length")) keys.size("attention.key_length", a.head_dim);
  if (!keys.error().empty()) return fail(keys.error());
  const auto heads = a.head_dim > 0 ? check_heads(a) : divide_into_heads(a);
  if (!heads) return fail(*kind + ".attention.head_count: " + heads.error().message);
  if (a.experts_per_token > a.experts) return fail(*kind + ".expert_used_count: is more than there are experts");
  for (const char* key : {"rope.dimension_count", "attention.key_length", "attention.value_length"}) {
    keys.must_be(key, a.head_dim);
  }
  if (keys.has("rope.scaling.type") && file.text(*kind + ".rope.scaling.type").value_or("") != "none") {
    keys.refuse(*kind + ".rope.scaling.type: only \"none\" is known");
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
  file.forget(stored);
  return wanted == shape ? tensor : tensor.narrow(0, 0, shape[0]).clone();
}

}  // namespace

expected<SnapshotPtr> read_weights(const GgufFile& file, std::int64_t vocab) {
  const expected<Architecture> architecture = read_architecture(file, vocab);
  if (!architecture) return tl::unexpected(architecture.error());
  const Architecture& a = *architecture;
  if (a.layers > static_cast<std::int64_t>(file.tensors().size())) {
    return fail("block_count: " + std::to_string(a.layers) + " layers need more tensors than the file has");
  }
  if (file.tensors().contains("rope_freqs.weight")) return fail("tensor rope_freqs.weight: is not supported");
  Weights weights = empty_weights(a);
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
    if (a.family != "llama") return;
    if (name.ends_with("q_proj.weight")) into = halves_from_pairs(into, a.heads);
    if (name.ends_with("k_proj.weight")) into = halves_from_pairs(into, a.kv_heads);
  });
  if (!result) return tl::unexpected(result.error());
  for (const auto& entry : file.tensors()) {
    if (!known.contains(entry.first))
      return fail("tensor " + entry.first + ": a model of type " + a.family + " has none of that name");
  }
  if (a.tied) weights.head = weights.embedding;
  if (expected<void> checked = check_weights(a, weights); !checked) return tl::unexpected(checked.error());
  return std::make_shared<const Snapshot>(Version{0}, a, std::move(weights));
}

}  // namespace millrace
