#pragma once
// A transformer's weights out of the safetensors of a Hugging Face folder, as float32, and into one. A tensor that is
// missing or of the wrong shape is an error that names it; nothing is ever filled in.
#include <string>

#include "models/transformer.hpp"

namespace millrace {

// config.json and the safetensors beside it. `vocab`: tokens of the tokenizer, at most the config's vocab_size; rows of
// the embedding beyond them are padding and are dropped here, once. 0: all rows stay.
expected<SnapshotPtr> read_folder_weights(const std::string& folder, std::int64_t vocab);

// Writes config.json and model.safetensors, the experts one by one and a tied head once. Error: the disk.
expected<void> write_folder_weights(const std::string& folder, const Snapshot& snapshot);

}  // namespace millrace
