#pragma once
// Environment "writing": one turn, "Write one sentence about the sea."; what is good is left to the reward spec.
// A task is a form with a topic, both from a data file; each pair comes once before any comes again.
#include "runtime/environment.hpp"

namespace millrace {

// Reads settings.data, or config/tasks/writing.json: {"system": "...", "forms": ["... {} ..."], "topics": ["..."]}.
expected<EnvironmentFactory> make_writing(const EnvironmentSettings& settings);

}  // namespace millrace
