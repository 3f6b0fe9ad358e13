#pragma once
// The small models of every family in tests/data/models, with what Hugging Face transformers computes for them.
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/models/decoder_fixture.hpp"

#include "models/folder_weights.hpp"

namespace millrace::testing {

inline const std::string golden_folder = MILLRACE_TEST_DATA "/models/";
inline const std::vector<std::string> all_families = {"llama-tied", "llama-untied", "qwen2-bias", "qwen3", "qwen3-moe"};

inline SnapshotPtr snapshot_of(const std::string& folder) {
  const auto snapshot = read_folder_weights(folder, 0);
  if (!snapshot) throw std::runtime_error(snapshot.error().message);
  return *snapshot;
}

// The decoder needs a tokenizer only to see where a turn ends: none of these 96 tokens does.
inline Model model_of(const std::string& name) {
  use_threads(1);
  return {.weights = snapshot_of(golden_folder + name),
          .tokenizer = std::make_shared<const Tokenizer>(Tokenizer::bytes()),
          .name = name};
}

inline nlohmann::json expected_of(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(golden_folder + name + "/expected.json"));
}

}  // namespace millrace::testing
