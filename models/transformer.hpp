#pragma once
// Decoder-only transformer (RMSNorm, RoPE, grouped-query attention, SwiGLU) as pure functions of its weights.
// Torch is seen here: included by models/*.cpp and the tests of models/ only.
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "config/expected.hpp"
#include "models/compute.hpp"
#include "models/model.hpp"
#include "models/sequence.hpp"

namespace millrace {

// Llama 3.1's stretching of rotary embedding: low frequencies are divided by `factor`, high ones stay.
struct RopeScaling {
  double factor = 1.0;  // 1: none
  double low_frequency_factor = 1.0;
  double high_frequency_factor = 4.0;
  double original_context = 8192;  // tokens
  bool operator==(const RopeScaling&) const = default;
};

struct Architecture {
  std::string family = "llama";  // llama | qwen2 | qwen3 | qwen3_moe
  std::int64_t vocab = 0;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;
  double rope_theta = 10000.0;
  double norm_eps = 1e-5;
  bool tied = true;  // the head is the embedding
  RopeScaling rope_scaling = {};
  bool qkv_bias = false;     // Qwen2
  bool qk_norm = false;      // Qwen3: RMSNorm of every query and key head, before they are rotated
  std::int64_t experts = 0;  // 0: one dense block; else `intermediate` is an expert's
  std::int64_t experts_per_token = 0;
  bool normalised_experts = true;  // the chosen experts' weights sum to 1
  bool operator==(const Architecture&) const = default;
};

// Linear weights are [out, in]. Names in `Weights` follow Hugging Face: model.layers.0.self_attn.q_proj.weight, ...
// With experts, gate and up are [experts, intermediate, hidden] and down is [experts, hidden, intermediate].
struct Layer {
  at::Tensor attention_norm, q, k, v, o, mlp_norm, gate, up, down;
  // Undefined where the architecture has none.
  at::Tensor q_bias = {}, k_bias = {}, v_bias = {}, q_norm = {}, k_norm = {}, router = {};
};

struct Weights {
  at::Tensor embedding;  // [vocab, hidden]
  std::vector<Layer> layers;
  at::Tensor final_norm;
  at::Tensor head;  // [vocab, hidden]; the same tensor as embedding where tied
};

// Visits every distinct tensor with its name, always in the same order: a tied head once, none that is not there.
template <class WeightsOrConst, class Visit>
void for_each_tensor(WeightsOrConst& weights, bool tied, Visit visit) {
  visit("model.embed_tokens.weight", weights.embedding);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    auto& layer = weights.layers[i];
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    const std::string mlp = prefix + (layer.router.defined() ? "mlp.experts." : "mlp.");
    const auto visit_if_there = [&](const char* name, auto& tensor) {
      if (tensor.defined()) visit(prefix + name, tensor);
    };
    visit(prefix + "input_layernorm.weight", layer.attention_norm);
    visit(prefix + "self_attn.q_proj.weight", layer.q);
    visit(prefix + "self_attn.k_proj.weight", layer.k);
    visit(prefix + "self_attn.v_proj.weight", layer.v);
    visit(prefix + "self_attn.o_proj.weight", layer.o);
    visit_if_there("self_attn.q_proj.bias", layer.q_bias);
    visit_if_there("self_attn.k_proj.bias", layer.k_bias);
    visit_if_there("self_attn.v_proj.bias", layer.v_bias);
    visit_if_there("self_attn.q_norm.weight", layer.q_norm);
    visit_if_there("self_attn.k_norm.weight", layer.k_norm);
    visit(prefix + "post_attention_layernorm.weight", layer.mlp_norm);
    visit_if_there("mlp.gate.weight", layer.router);
    visit(mlp + "gate_proj.weight", layer.gate);
    visit(mlp + "up_proj.weight", layer.up);
    visit(mlp + "down_proj.weight", layer.down);
  }
  visit("model.norm.weight", weights.final_norm);
  if (!tied) visit("lm_head.weight", weights.head);
}

// Weights to be filled in: every tensor of the architecture is there, without elements, so that it is visited.
Weights empty_weights(const Architecture& architecture);

class Snapshot {
 public:
  Snapshot(Version number, Architecture shape, Weights tensors, Weights narrow_tensors = {})
      : version(number), architecture(shape), weights(std::move(tensors)), narrow(std::move(narrow_tensors)) {}
  const Version version;
  const Architecture architecture;
  const Weights weights;  // float32 master weights, no gradient
  const Weights narrow;   // the same in bfloat16 where a learner computes in it, else undefined tensors

  const expected<void>& checked() const;  // check_weights of its own architecture, looked at once
  // Makes and keeps the copy for those who compute so, and checks: a publisher's part, so that nobody else waits for
  // it.
  void prepare(const Compute& compute) const;
  const Weights* prepared(const Compute& compute) const;  // null: there is no such copy

 private:
  mutable std::mutex mutex_;  // of the following
  mutable std::optional<expected<void>> checked_;
  mutable std::list<std::pair<Compute, Weights>> prepared_;
};

// Weights as this computes with them: the snapshot's own tensors or a prepared copy where it has them, else a copy made
// now.
// kChar: the matrices that decoding multiplies with are quantised (models/quantised.hpp), the rest is float32.
Weights weights_of(const Snapshot& snapshot, const Compute& compute);

// The same weights with their masters on that device, the snapshot itself where they are there.
SnapshotPtr on_device(const SnapshotPtr& snapshot, at::Device device);

// Several sequences in one pass without padding. A prefix that all of them share (at most up to the token before the
// first action) is computed once: `tokens` holds it first, then each sequence's rest.
struct Pack {
  at::Tensor tokens;     // [total] int64
  at::Tensor positions;  // [total] int64, from 0 in every sequence
  std::int64_t prefix = 0;
  std::vector<std::vector<std::int64_t>> rows;  // rows[i][t] = where token t of sequence i stands in `tokens`
  std::vector<std::int64_t> bounds;             // of the prefix and of each sequence's rest, from 0 to the total
};

Pack make_pack(std::span<const Sequence> sequences, at::Device device = at::kCPU);

// [total, total] additive attention mask where the pack lies: 0 where row may see column, -inf elsewhere.
at::Tensor mask_of(const Pack& pack, at::ScalarType dtype);

// Final hidden states of those rows of the pack (undefined: of all), [rows, hidden], normed, of the weights' dtype. A
// backward pass adds to the float32 grad() of every weight that requires a gradient; what it needs of the layers is
// kept, or computed once more (`recompute`).
at::Tensor hidden_states(const Architecture& architecture, const Weights& weights, const Pack& pack,
                         const at::Tensor& rows = {}, bool recompute = false);

// Logits [rows, vocab] in float32 of the given hidden rows. Not differentiable: the policy learner knows their
// gradient.
at::Tensor logits_of(const Weights& weights, const at::Tensor& hidden);

// Shape of the tensor of that name, as for_each_tensor names them.
std::vector<std::int64_t> shape_of(const Architecture& architecture, const std::string& name);
std::string text_of(at::IntArrayRef shape);  // "[48, 32]"

// Whether heads, kv_heads and head_dim go together.
expected<void> check_heads(const Architecture& architecture);
// Sets head_dim to hidden / heads, and checks the same.
expected<void> divide_into_heads(Architecture& architecture);

// Checks names, shapes and finiteness against the architecture. Used before weights are taken by anyone.
expected<void> check_weights(const Architecture& architecture, const Weights& weights);

}  // namespace millrace
