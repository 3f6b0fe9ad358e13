#include "models/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "models/layers.hpp"
#include "models/pack_attention.hpp"
#include "models/projection.hpp"
#include "models/quantised.hpp"

namespace millrace {

namespace {

// Attention of every row to the rows its mask lets it see: [rows, heads * head_dim].
at::Tensor attend(const Architecture& architecture, const AttentionInput& in, const at::Tensor& mask) {
  const std::int64_t rows = in.q.size(0);
  const std::int64_t group = architecture.heads / architecture.kv_heads;
  const auto heads_first = [&](const at::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); };
  const auto expanded = [&](const at::Tensor& x) { return heads_first(x).repeat_interleave(group, 1); };
  return at::scaled_dot_product_attention(heads_first(in.q), expanded(in.k), expanded(in.v), mask)
      .squeeze(0)
      .transpose(0, 1)
      .reshape({rows, architecture.heads * architecture.head_dim});
}

Weights converted(Weights weights, const Compute& compute) {
  const bool tied = weights.head.is_same(weights.embedding);
  for_each_tensor(weights, tied,
                  [&](const std::string&, at::Tensor& tensor) { tensor = tensor.to(compute.device, compute.dtype); });
  if (tied) weights.head = weights.embedding;
  return weights;
}

// Embeddings are looked up, not multiplied with; norms and biases are vectors; a router's choice must not be rounded.
Weights with_quantised_matrices(Weights weights) {
  for (Layer& layer : weights.layers) {
    for (at::Tensor* matrix : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      *matrix = quantised(*matrix);
    }
  }
  weights.head = quantised(weights.head);
  return weights;
}

expected<void> check_tensor(const std::string& name, const at::Tensor& tensor, at::IntArrayRef shape) {
  if (!tensor.defined()) return fail(name + ": missing, expected " + text_of(shape));
  if (tensor.sizes() != shape) {
    return fail(name + ": shape " + text_of(tensor.sizes()) + ", expected " + text_of(shape));
  }
  // A sum is finite only if every summand is; the slow look is for sums that overflow.
  if (!std::isfinite(tensor.sum(at::kFloat).item<float>()) && !at::isfinite(tensor).all().item<bool>()) {
    return fail(name + ": a value is not finite");
  }
  return {};
}

}  // namespace

at::Tensor hidden_states(const Architecture& architecture, const Weights& weights, const Pack& pack,
                         const at::Tensor& rows, bool recompute) {
  at::Tensor hidden = embed(weights.embedding, pack.tokens);
  const Rotary rotary = rotary_of(architecture, pack.positions);
  const bool on_cpu = hidden.is_cpu();
  const at::Tensor mask = on_cpu ? at::Tensor() : mask_of(pack, weights.layers.front().q.scalar_type());
  const auto run = [=](const Layer& layer, const Pack& of_pack, const at::Tensor& before, const at::Tensor& wanted) {
    const AttentionInput input = attention_input(architecture, layer, before, rotary);
    const at::Tensor attended = on_cpu ? pack_attention(input, of_pack) : attend(architecture, input, mask);
    if (!wanted.defined()) return layer_output(architecture, layer, before, attended);
    return layer_output(architecture, layer, before.index_select(0, wanted), attended.index_select(0, wanted));
  };
  // The backward pass may come when the caller's pack is gone.
  const auto kept = recompute ? std::make_shared<const Pack>(pack) : nullptr;
  for (const Layer& layer : weights.layers) {
    // What follows attention goes row by row: the last layer does it for the rows that are asked for.
    const at::Tensor wanted = &layer == &weights.layers.back() ? rows : at::Tensor();
    hidden = recompute ? recomputed(hidden, layer.down,
                                    [=](const at::Tensor& before) { return run(layer, *kept, before, wanted); })
                       : run(layer, pack, hidden, wanted);
  }
  return rms_norm(hidden, weights.final_norm, architecture.norm_eps);
}

at::Tensor logits_of(const Weights& weights, const at::Tensor& hidden) { return float_product(hidden, weights.head); }

Weights weights_of(const Snapshot& snapshot, const Compute& compute) {
  const Weights &masters = snapshot.weights, &narrow = snapshot.narrow;
  if (compute == Compute(at::kFloat, masters.embedding.device())) return masters;
  if (compute.dtype == at::kBFloat16 && narrow.embedding.defined() && narrow.embedding.device() == compute.device)
    return narrow;
  if (const Weights* prepared = snapshot.prepared(compute)) return *prepared;
  if (compute.dtype == at::kChar) return with_quantised_matrices(converted(masters, {at::kFloat, compute.device}));
  return converted(masters, compute);
}

SnapshotPtr on_device(const SnapshotPtr& snapshot, at::Device device) {
  if (snapshot->weights.embedding.device() == device) return snapshot;
  const Compute there(at::kFloat, device);
  snapshot->prepare(there);  // whoever else asks gets the same memory
  return std::make_shared<const Snapshot>(snapshot->version, snapshot->architecture, weights_of(*snapshot, there));
}

const expected<void>& Snapshot::checked() const {
  const std::scoped_lock lock(mutex_);
  if (!checked_) checked_ = check_weights(architecture, weights);
  return *checked_;
}

void Snapshot::prepare(const Compute& compute) const {
  checked();
  if (prepared(compute)) return;
  const Weights copy = weights_of(*this, compute);
  const std::scoped_lock lock(mutex_);
  prepared_.emplace_back(compute, copy);
}

const Weights* Snapshot::prepared(const Compute& compute) const {
  const std::scoped_lock lock(mutex_);
  const auto found =
      std::find_if(prepared_.begin(), prepared_.end(), [&](const auto& copy) { return copy.first == compute; });
  return found != prepared_.end() ? &found->second : nullptr;  // which never moves
}

std::string text_of(at::IntArrayRef shape) {
  std::ostringstream text;
  text << shape;
  return text.str();
}

expected<void> check_heads(const Architecture& a) {
  if (a.heads % a.kv_heads != 0) {
    return fail(std::to_string(a.heads) + " heads are not divided by " + std::to_string(a.kv_heads) +
                " key-value heads");
  }
  if (a.head_dim % 2 != 0) return fail("a head of " + std::to_string(a.head_dim) + " values has no halves");
  return {};
}

expected<void> divide_into_heads(Architecture& a) {
  if (a.hidden % a.heads != 0) {
    return fail(std::to_string(a.hidden) + " hidden values are not divided by " + std::to_string(a.heads) + " heads");
  }
  a.head_dim = a.hidden / a.heads;
  return check_heads(a);
}

Weights empty_weights(const Architecture& a) {
  const auto empty = [](bool is_there) { return is_there ? at::empty({0}, at::kFloat) : at::Tensor(); };
  Weights weights;
  for (std::int64_t i = 0; i < a.layers; ++i) {
    Layer& layer = weights.layers.emplace_back();
    for (at::Tensor* tensor : {&layer.q_bias, &layer.k_bias, &layer.v_bias}) *tensor = empty(a.qkv_bias);
    for (at::Tensor* tensor : {&layer.q_norm, &layer.k_norm}) *tensor = empty(a.qk_norm);
    layer.router = empty(a.experts > 0);
  }
  return weights;
}

std::vector<std::int64_t> shape_of(const Architecture& a, const std::string& name) {
  const std::int64_t q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim;
  if (name.ends_with("q_proj.weight")) return {q, a.hidden};
  if (name.ends_with("k_proj.weight") || name.ends_with("v_proj.weight")) return {kv, a.hidden};
  if (name.ends_with("o_proj.weight")) return {a.hidden, q};
  if (name.ends_with("q_proj.bias")) return {q};
  if (name.ends_with("_proj.bias")) return {kv};
  if (name.ends_with("q_norm.weight") || name.ends_with("k_norm.weight")) return {a.head_dim};
  if (name.ends_with("mlp.gate.weight")) return {a.experts, a.hidden};
  const bool is_up = name.ends_with("gate_proj.weight") || name.ends_with("up_proj.weight");
  if (is_up || name.ends_with("down_proj.weight")) {
    std::vector<std::int64_t> shape = {is_up ? a.intermediate : a.hidden, is_up ? a.hidden : a.intermediate};
    if (a.experts > 0) shape.insert(shape.begin(), a.experts);
    return shape;
  }
  if (name.ends_with("norm.weight")) return {a.hidden};
  return {a.vocab, a.hidden};
}

expected<void> check_weights(const Architecture& architecture, const Weights& weights) {
  const Architecture& a = architecture;
  if (static_cast<std::int64_t>(weights.layers.size()) != a.layers) {
    return fail("model.layers: " + std::to_string(weights.layers.size()) + " of them, expected " +
                std::to_string(a.layers));
  }
  if (a.tied && !weights.head.is_same(weights.embedding)) {
    return fail("lm_head.weight: is not the embedding, although the two are tied");
  }
  expected<void> result;
  for (std::size_t i = 0; i < weights.layers.size() && result; ++i) {  // those are not visited where they are missing
    const Layer& layer = weights.layers[i];
    const auto check = [&](bool wanted, const at::Tensor& tensor, const char* name) {
      if (result && wanted != tensor.defined()) {
        result = fail("model.layers." + std::to_string(i) + "." + name +
                      (wanted ? ": missing" : ": there is none in this architecture"));
      }
    };
    check(a.qkv_bias, layer.q_bias, "self_attn.q_proj.bias");
    check(a.qkv_bias, layer.k_bias, "self_attn.k_proj.bias");
    check(a.qkv_bias, layer.v_bias, "self_attn.v_proj.bias");
    check(a.qk_norm, layer.q_norm, "self_attn.q_norm.weight");
    check(a.qk_norm, layer.k_norm, "self_attn.k_norm.weight");
    check(a.experts > 0, layer.router, "mlp.gate.weight");
  }
  if (!result) return result;
  for_each_tensor(weights, a.tied, [&](const std::string& name, const at::Tensor& tensor) {
    if (result) result = check_tensor(name, tensor, shape_of(a, name));
  });
  return result;
}

}  // namespace millrace
