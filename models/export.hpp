#pragma once
// A model as a folder that Hugging Face transformers loads (and load_model, too): config.json, model.safetensors,
// tokenizer.json, tokenizer_config.json, generation_config.json.
#include <span>
#include <string>

#include "config/expected.hpp"
#include "models/learner_image.hpp"
#include "models/model.hpp"

namespace millrace {

// The weights that a policy learner's image holds, as a policy like this one. Error: the image is of another model.
expected<SnapshotPtr> weights_of_image(const Snapshot& like, std::span<const TensorView> image, Version version);

// Makes `folder`, all or nothing: it is written beside and renamed. Errors: it is there already; the disk.
expected<void> export_model(const Model& model, const std::string& folder);

}  // namespace millrace
