#pragma once
// config.json of a Hugging Face folder <-> Architecture.
#include <nlohmann/json_fwd.hpp>

#include "models/transformer.hpp"

namespace millrace {

// Families: llama, qwen2, qwen3, qwen3_moe. Errors name the field; what this transformer would compute in another way
// than transformers does is refused.
expected<Architecture> read_config(const nlohmann::json& config);

// config.json that transformers reads as the same model, float32.
nlohmann::ordered_json config_of(const Architecture& architecture);

}  // namespace millrace
