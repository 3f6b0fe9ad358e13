#include "models/gguf_weights.hpp"

#include <map>

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

expected<Architecture> read_architecture(const GgufFile& file, std::int64_t vocab) {
  const expected<std::string> kind = file.text("general.architecture");
  if (!kind) return tl::unexpected(kind.error());
  if (*kind != "llama") return fail("general.architecture is \"" + *kind + "\": only llama is known");
  Architecture a;
  a.vocab = vocab;
  a.tied = !file.tensors().contains("output.weight");
  std::string error;
  const auto integer = [&](const std::string& key, std::int64_t& into) {
    const expected<std::int64_t> value = file.integer("llama." + key);
    if (!value)
      error = value.error().message;
    else if (*value < 1 || *value > 1'000'000)
      error = "llama." + key + " is " + std::to_string(*value) + ", out of range";
    else
      into = *value;
  };
  const auto number = [&](const std::string& key, double& into) {
    if (!file.has("llama." + key)) return;
    const expected<double> value = file.number("llama." + key);
    if (!value)
      error = value.error().message;
    else
      into = *value;
  };
  integer("block_count", a.layers);
  integer("embedding_length", a.hidden);
  integer("attention.head_count", a.heads);
  a.kv_heads = a.heads;
  if (file.has("llama.attention.head_count_kv")) integer("attention.head_count_kv", a.kv_heads);
  integer("feed_forward_length", a.intermediate);
  number("rope.freq_base", a.rope_theta);
  number("attention.layer_norm_rms_epsilon", a.norm_eps);
  if (!error.empty()) return fail(error);
  if (a.hidden % a.heads != 0 || a.heads % a.kv_heads != 0) {
    return fail("llama.attention.head_count: " + std::to_string(a.heads) + " heads do not divide " +
                std::to_string(a.hidden) + ", or are no multiple of " + std::to_string(a.kv_heads));
  }
  a.head_dim = a.hidden / a.heads;
  return a;
}

// Llama files hold the rows of q and k in pairs, for interleaved rotary embedding; ours rotates halves.
at::Tensor halves_from_pairs(const at::Tensor& rows, std::int64_t heads) {
  const std::int64_t half = rows.size(0) / heads / 2;
  return rows.view({heads, half, 2, rows.size(1)}).transpose(1, 2).reshape(rows.sizes());
}

expected<at::Tensor> read_tensor(const GgufFile& file, const std::string& name, std::vector<std::int64_t> shape) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) return fail("tensor " + name + " is missing");
  const GgufTensor& stored = found->second;
  const bool is_vocabulary = name == "token_embd.weight" || name == "output.weight";
  const std::int64_t padded_rows = is_vocabulary && stored.shape.size() == 2 ? stored.shape[0] : shape[0];
  const std::int64_t rows = shape[0];
  shape[0] = std::max(rows, padded_rows);
  if (stored.shape != shape) {
    return fail("tensor " + name + " has the wrong shape: its first dimension is " +
                (stored.shape.empty() ? std::string("missing") : std::to_string(stored.shape[0])) + ", expected " +
                std::to_string(shape[0]));
  }
  at::Tensor tensor = at::empty(shape, at::kFloat);
  dequantise(stored, {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())});
  return rows == shape[0] ? tensor : tensor.narrow(0, 0, rows).clone();
}

}  // namespace

expected<SnapshotPtr> read_weights(const GgufFile& file, std::int64_t vocab) {
  const expected<Architecture> architecture = read_architecture(file, vocab);
  if (!architecture) return tl::unexpected(architecture.error());
  const Architecture& a = *architecture;
  Weights weights;
  weights.layers.resize(static_cast<std::size_t>(a.layers));
  expected<void> result;
  for_each_tensor(weights, a.tied, [&](const std::string& name, at::Tensor& into) {
    if (!result) return;
    expected<at::Tensor> tensor = read_tensor(file, gguf_name(name), shape_of(a, name));
    if (!tensor) {
      result = tl::unexpected(tensor.error());
      return;
    }
    into = std::move(*tensor);
    if (name.ends_with("q_proj.weight")) into = halves_from_pairs(into, a.heads);
    if (name.ends_with("k_proj.weight")) into = halves_from_pairs(into, a.kv_heads);
  });
  if (!result) return tl::unexpected(result.error());
  if (a.tied) weights.head = weights.embedding;
  if (expected<void> checked = check_weights(a, weights); !checked) return tl::unexpected(checked.error());
  return std::make_shared<const Snapshot>(Version{0}, a, std::move(weights));
}

}  // namespace millrace
