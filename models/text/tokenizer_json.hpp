#pragma once
// The tokenizer of a Hugging Face folder: tokenizer.json (byte-pair encoding), tokenizer_config.json and
// generation_config.json beside it, chat_template.jinja where there is one.
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "config/expected.hpp"
#include "models/text/tokenizer.hpp"

namespace millrace {

// Errors name the file and the field. What would give other ids than Hugging Face's `tokenizers` is refused.
expected<Vocabulary> read_tokenizer_folder(const std::string& folder);

// tokenizer.json alone: no bos, eos or chat template.
expected<Vocabulary> read_tokenizer_json(const nlohmann::json& file);

// The other way round, for a folder that others are to load. Reading it again gives the same vocabulary, but for the
// name of the pre-tokenizer, which becomes patterns.
nlohmann::ordered_json tokenizer_json_of(const Vocabulary& vocabulary);

}  // namespace millrace
