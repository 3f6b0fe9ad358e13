#pragma once
// A model as a folder that Hugging Face transformers loads (and load_model, too): config.json, model.safetensors,
// tokenizer.json, tokenizer_config.json, generation_config.json.
#include <string>

#include "config/expected.hpp"
#include "models/model.hpp"

namespace millrace {

// Makes `folder`, all or nothing: it is written beside and renamed. Errors: it is there already; the disk.
expected<void> export_model(const Model& model, const std::string& folder);

}  // namespace millrace
