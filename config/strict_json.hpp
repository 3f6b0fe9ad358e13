#pragma once
// Strict JSON with comments, for every file that people write: a syntax error gives file:line:column, a key that stands
// twice or text after the end is an error. What the keys mean is left to the caller.
#include <string>

#include <nlohmann/json.hpp>

#include "config/expected.hpp"

namespace millrace {

// `source` names the text in errors.
expected<nlohmann::json> parse_json(const std::string& text, const std::string& source);
expected<nlohmann::json> read_json_file(const std::string& file);

// A value as it is shown in errors: JSON, shortened where it is long. Never throws.
std::string shown(const nlohmann::json& value);

}  // namespace millrace
