#pragma once
// A JSON file of a model's folder, and its fields one by one with errors that name them.
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "config/expected.hpp"

namespace millrace {

std::optional<std::string> read_file(const std::string& path);  // nothing: it cannot be read

// Errors: not there, no JSON, no object at the top.
expected<nlohmann::json> read_json_object(const std::string& path);

}  // namespace millrace
