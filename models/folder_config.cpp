#include "models/folder_config.hpp"

#include <map>

#include <nlohmann/json.hpp>

#include "models/text/utf8.hpp"

namespace millrace {

namespace {

using nlohmann::json;

// Reads fields one after the other and keeps the first error.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  bool has(const char* key) const { return object_.contains(key) && !object_.at(key).is_null(); }
  const json& at(const char* key) const { return object_.at(key); }

  void size(const char* key, std::int64_t& into) {
    if (!has(key)) return refuse(key, "is missing");
    const json& value = at(key);
    if (!value.is_number_integer() || value < 1 || value > 1'000'000'000) {
      return refuse(key, "must be a whole number from 1 to 1000000000");
    }
    into = value.get<std::int64_t>();
  }
  void size_if_there(const char* key, std::int64_t& into) {
    if (has(key)) size(key, into);
  }
  void number_if_there(const char* key, double& into) {
    if (!has(key)) return;
    if (!at(key).is_number() || !(at(key).get<double>() > 0)) return refuse(key, "must be a number above 0");
    into = at(key).get<double>();
  }
  void truth_if_there(const char* key, bool& into) {
    if (!has(key)) return;
    if (!at(key).is_boolean()) return refuse(key, "must be true or false");
    into = at(key).get<bool>();
  }
  // What we compute with: another value is an error.
  void must_be(const char* key, const json& right) {
    if (has(key) && at(key) != right) refuse(key, "must be " + right.dump() + ", this is not supported: " + shown(key));
  }
  void must_be_absent(const char* key) {
    if (has(key)) refuse(key, "is not supported: " + shown(key));
  }
  void refuse(const std::string& key, const std::string& what) {
    if (error_.empty()) error_ = key + ": " + what;
  }
  const std::string& error() const { return error_; }

 private:
  std::string shown(const char* key) const { return at(key).dump(-1, ' ', true).substr(0, 100); }
  const json& object_;
  std::string error_;
};

void read_rope(Fields& config, Architecture& a) {
  config.number_if_there("rope_theta", a.rope_theta);
  config.must_be("partial_rotary_factor", 1.0);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {  // the second before transformers 5
    if (!config.has(key)) continue;
    if (!config.at(key).is_object()) return config.refuse(key, "must be an object");
    Fields rope(config.at(key));
    rope.number_if_there("rope_theta", a.rope_theta);
    std::string type = "default";
    for (const char* name : {"type", "rope_type"}) {
      if (rope.has(name)) type = rope.at(name).is_string() ? rope.at(name).get<std::string>() : "";
    }
    if (type == "llama3") {
      for (const auto& [name, into] : {std::pair("factor", &a.rope_scaling.factor),
                                       {"low_freq_factor", &a.rope_scaling.low_frequency_factor},
                                       {"high_freq_factor", &a.rope_scaling.high_frequency_factor},
                                       {"original_max_position_embeddings", &a.rope_scaling.original_context}}) {
        if (!rope.has(name)) rope.refuse(name, "is missing");
        rope.number_if_there(name, *into);
      }
      const RopeScaling& scaling = a.rope_scaling;
      if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
        rope.refuse("high_freq_factor", "must be above low_freq_factor");
      }
    } else if (type != "default") {
      rope.refuse("rope_type", "only \"default\" and \"llama3\" are supported");
    }
    if (!rope.error().empty()) config.refuse(key, rope.error());
  }
}

void read_experts(Fields& config, Architecture& a) {
  config.size(config.has("num_experts") ? "num_experts" : "num_local_experts", a.experts);
  config.size("num_experts_per_tok", a.experts_per_token);
  config.size("moe_intermediate_size", a.intermediate);
  a.normalised_experts = false;
  config.truth_if_there("norm_topk_prob", a.normalised_experts);
  config.must_be("decoder_sparse_step", 1);
  config.must_be("mlp_only_layers", json::array());
  if (a.experts_per_token > a.experts) config.refuse("num_experts_per_tok", "must be at most the number of experts");
}

}  // namespace

expected<Architecture> read_config(const json& object) {
  Fields config(object);
  Architecture a;
  a.family =
      config.has("model_type") && config.at("model_type").is_string() ? config.at("model_type").get<std::string>() : "";
  if (a.family != "llama" && a.family != "qwen2" && a.family != "qwen3" && a.family != "qwen3_moe") {
    return fail("model_type: " + in_quotes(a.family) + " is unknown: known are llama, qwen2, qwen3, qwen3_moe");
  }
  a.qkv_bias = a.family == "qwen2";
  a.qk_norm = a.family.starts_with("qwen3");
  config.size("vocab_size", a.vocab);
  config.size("hidden_size", a.hidden);
  config.size("num_hidden_layers", a.layers);
  config.size("num_attention_heads", a.heads);
  a.kv_heads = a.heads;
  config.size_if_there("num_key_value_heads", a.kv_heads);
  if (a.family == "qwen3_moe")
    read_experts(config, a);
  else
    config.size("intermediate_size", a.intermediate);
  a.norm_eps = 1e-6;
  config.number_if_there("rms_norm_eps", a.norm_eps);
  read_rope(config, a);
  a.tied = false;
  config.truth_if_there("tie_word_embeddings", a.tied);
  config.must_be("hidden_act", "silu");
  if (!a.qkv_bias) config.must_be("attention_bias", false);
  config.must_be("mlp_bias", false);
  config.must_be("use_sliding_window", false);
  config.must_be_absent("quantization_config");
  if (!config.error().empty()) return fail(config.error());

  if (config.has("head_dim")) {
    config.size("head_dim", a.head_dim);
    if (!config.error().empty()) return fail(config.error());
    if (const auto heads = check_heads(a); !heads) return fail("num_attention_heads: " + heads.error().message);
  } else if (const auto heads = divide_into_heads(a); !heads) {
    return fail("num_attention_heads: " + heads.error().message);
  }
  return a;
}

nlohmann::ordered_json config_of(const Architecture& a) {
  static const std::map<std::string, const char*> classes = {{"llama", "LlamaForCausalLM"},
                                                             {"qwen2", "Qwen2ForCausalLM"},
                                                             {"qwen3", "Qwen3ForCausalLM"},
                                                             {"qwen3_moe", "Qwen3MoeForCausalLM"}};
  nlohmann::ordered_json config = {{"architectures", {classes.at(a.family)}},
                                   {"model_type", a.family},
                                   {"vocab_size", a.vocab},
                                   {"hidden_size", a.hidden},
                                   {"intermediate_size", a.intermediate},
                                   {"num_hidden_layers", a.layers},
                                   {"num_attention_heads", a.heads},
                                   {"num_key_value_heads", a.kv_heads},
                                   {"head_dim", a.head_dim},
                                   {"hidden_act", "silu"},
                                   {"rms_norm_eps", a.norm_eps},
                                   {"rope_theta", a.rope_theta},
                                   {"tie_word_embeddings", a.tied},
                                   {"dtype", "float32"},
                                   {"torch_dtype", "float32"}};
  if (a.family == "llama") {
    config["attention_bias"] = false;
    config["mlp_bias"] = false;
  }
  if (const RopeScaling& scaling = a.rope_scaling; scaling.factor != 1.0) {
    config["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", scaling.factor},
        {"low_freq_factor", scaling.low_frequency_factor},
        {"high_freq_factor", scaling.high_frequency_factor},
        {"original_max_position_embeddings", static_cast<std::int64_t>(scaling.original_context)}};
  }
  if (a.experts > 0) {
    config["num_experts"] = a.experts;
    config["num_experts_per_tok"] = a.experts_per_token;
    config["moe_intermediate_size"] = a.intermediate;
    config["norm_topk_prob"] = a.normalised_experts;
    config["decoder_sparse_step"] = 1;
    config["mlp_only_layers"] = nlohmann::ordered_json::array();
  }
  return config;
}

}  // namespace millrace
