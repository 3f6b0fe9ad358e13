#include "runtime/checkpoint.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace millrace {

namespace {

constexpr int format_version = 1;  // of folder and manifest
constexpr const char* manifest_name = "manifest.json";
constexpr const char* unfinished = ".unfinished";

nlohmann::json to_json(const FileSum& sum) { return {{"bytes", sum.bytes}, {"xxh3", sum.xxh3}}; }
FileSum sum_from(const nlohmann::json& document) {
  return {document.at("bytes").get<std::uint64_t>(), document.at("xxh3").get<std::uint64_t>()};
}

}  // namespace

expected<std::uint64_t> CheckpointStore::write(const std::string& name, nlohmann::json facts, const TensorViews& policy,
                                               const TensorViews& value) const {
  const std::string folder = directory_ + "/" + name, work = folder + unfinished;
  const auto give_up = [&](const Error& error) {
    (void)remove_all(work);
    return tl::unexpected(error);
  };
  std::error_code code;
  std::filesystem::remove_all(work, code);
  std::filesystem::remove_all(folder, code);  // of a crash before the ledger named it
  std::filesystem::create_directories(work, code);
  if (code) return fail(work + ": cannot create: " + code.message());

  const auto policy_sum = write_tensor_file(work + "/policy.safetensors", policy);
  if (!policy_sum) return give_up(policy_sum.error());
  const auto value_sum = write_tensor_file(work + "/value.safetensors", value);
  if (!value_sum) return give_up(value_sum.error());
  facts["format"] = format_version;
  facts["files"] = {{"policy.safetensors", to_json(*policy_sum)}, {"value.safetensors", to_json(*value_sum)}};

  auto manifest = DurableFile::create(work + "/" + manifest_name);
  if (!manifest) return give_up(manifest.error());
  if (auto written = manifest->write(facts.dump(1)); !written) return give_up(written.error());
  const auto sum = manifest->finish();
  if (!sum) return give_up(sum.error());
  if (auto flushed = flush_folder(work); !flushed) return give_up(flushed.error());
  if (auto named = rename_durably(work, folder); !named) return give_up(named.error());
  return sum->xxh3;
}

expected<StoredCheckpointPtr> CheckpointStore::read(const CheckpointRow& row) const {
  const std::string folder = directory_ + "/" + row.name, path = folder + "/" + manifest_name;
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  const std::string bytes = text.str();
  if (!stream) return fail(path + ": cannot be read");
  if (xxh3_of(std::as_bytes(std::span(bytes))) != row.checksum) {
    return fail(path + ": not what was written: its checksum differs");
  }
  nlohmann::json manifest = nlohmann::json::parse(bytes, nullptr, false);
  if (!manifest.is_object()) return fail(path + ": not JSON");
  const int format = manifest.value("format", 0);
  if (format != format_version) {
    return fail(path + ": checkpoint of format " + std::to_string(format) + ", this program knows " +
                std::to_string(format_version) + ": use the millrace that wrote it");
  }
  const auto open = [&](const char* file) {
    return TensorFile::open(folder + "/" + file, sum_from(manifest.at("files").at(file)));
  };
  auto policy = open("policy.safetensors");
  if (!policy) return tl::unexpected(policy.error());
  auto value = open("value.safetensors");
  if (!value) return tl::unexpected(value.error());
  return std::make_shared<const StoredCheckpoint>(
      StoredCheckpoint{row, std::move(manifest), std::move(*policy), std::move(*value)});
}

expected<void> CheckpointStore::keep_only(const std::vector<std::string>& names) const {
  std::error_code code;
  if (!std::filesystem::exists(directory_, code)) return {};
  std::vector<std::string> others;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, code)) {
    const std::string name = entry.path().filename();
    if (std::find(names.begin(), names.end(), name) == names.end()) others.push_back(entry.path());
  }
  for (const std::string& path : others) {
    if (auto removed = remove_all(path); !removed) return removed;
  }
  return {};
}

}  // namespace millrace
