#pragma once
// A critic trained ahead of its policy, in a folder: pretrained.json and the file of tensors it names. What it names is
// always complete, whenever the writer was stopped.
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "config/expected.hpp"
#include "runtime/tensor_file.hpp"

namespace millrace {

struct PretrainedValue {
  nlohmann::json facts;  // as they were written: what it was trained on, how far
  TensorFile tensors;    // a ValueLearner's image
};

expected<void> write_pretrained(const std::string& directory, nlohmann::json facts, const TensorViews& tensors);
bool has_pretrained(const std::string& directory);
// Errors: nothing there, damaged.
expected<std::shared_ptr<const PretrainedValue>> read_pretrained(const std::string& directory);

}  // namespace millrace
