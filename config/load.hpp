#pragma once
// Strict loading of the settings: an unknown key, a wrong type or a value out of range is an error that names the key,
// where it came from, and the nearest known key or the allowed range. Never a silent default.
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/expected.hpp"
#include "config/settings.hpp"

namespace millrace {

// What stands over the file, weakest first.
struct Overrides {
  std::vector<std::pair<std::string, std::string>> environment;  // NAME, value; only MILLRACE_SECTION__KEY are read
  std::vector<std::string> sets;                                 // "section.key=value", value JSON or a bare word
};

// Reads a JSON file with comments. Checks every value and also what belongs together (min_batch <= batch, a token file
// off loopback, ...).
expected<Settings> load_settings(const std::string& file, const Overrides& overrides);

// Takes the recipe with all that hangs on it: its numbers, pacing, what the critic does.
void use_recipe(Settings& settings, const Recipe& recipe);

// All settings in the shape of a config file, defaults included (`config show`, and kept beside the ledger).
nlohmann::ordered_json to_json(const Settings& settings);

// JSON Schema of the config file (`config schema`).
nlohmann::ordered_json settings_schema();

}  // namespace millrace
