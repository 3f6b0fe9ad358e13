#include "runtime/pretrained_value.hpp"

#include <filesystem>

#include "config/strict_json.hpp"
#include "runtime/durable_file.hpp"

namespace millrace {

namespace {

constexpr const char* facts_name = "/pretrained.json";

}  // namespace

expected<void> write_pretrained(const std::string& directory, nlohmann::json facts, const TensorViews& tensors) {
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (code) return fail(directory + ": cannot create: " + code.message());
  // Two names in turn: the one that the facts name is never written over.
  const bool first = read_json_file(directory + facts_name).value_or(nlohmann::json::object()).value("file", "") ==
                     "value-a.safetensors";
  const std::string file = first ? "value-b.safetensors" : "value-a.safetensors";
  const auto sum = write_tensor_file(directory + "/" + file, tensors);
  if (!sum) return tl::unexpected(sum.error());
  facts["file"] = file;
  facts["bytes"] = sum->bytes;
  facts["xxh3"] = sum->xxh3;
  return replace_file(directory + facts_name, facts.dump(1) + "\n");
}

bool has_pretrained(const std::string& directory) { return std::filesystem::exists(directory + facts_name); }

expected<std::shared_ptr<const PretrainedValue>> read_pretrained(const std::string& directory) {
  auto facts = read_json_file(directory + facts_name);
  if (!facts) return tl::unexpected(facts.error());
  FileSum sum;
  std::string file;
  try {
    file = facts->at("file").get<std::string>();
    sum = {facts->at("bytes").get<std::uint64_t>(), facts->at("xxh3").get<std::uint64_t>()};
  } catch (const nlohmann::json::exception& error) {
    return fail(directory + facts_name + ": " + error.what());
  }
  auto tensors = TensorFile::open(directory + "/" + file, sum);
  if (!tensors) return tl::unexpected(tensors.error());
  return std::make_shared<const PretrainedValue>(PretrainedValue{std::move(*facts), std::move(*tensors)});
}

}  // namespace millrace
