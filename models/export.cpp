#include "models/export.hpp"

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "models/folder_weights.hpp"
#include "models/named_tensors.hpp"
#include "models/text/tokenizer_json.hpp"

namespace millrace {

namespace {

using nlohmann::ordered_json;

expected<void> write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << '\n';
  file.close();
  if (!file) return fail(path + ": cannot be written, is the disk full?");
  return {};
}

ordered_json tokenizer_config_of(const Vocabulary& vocabulary) {
  const auto spelling = [&](TokenId token) -> ordered_json {
    if (token < 0) return nullptr;
    return vocabulary.tokens[static_cast<std::size_t>(token)];
  };
  ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"bos_token", spelling(vocabulary.bos)},
                         {"eos_token", spelling(vocabulary.eos)},
                         {"clean_up_tokenization_spaces", false}};
  if (!vocabulary.chat_template.empty()) config["chat_template"] = vocabulary.chat_template;
  return config;
}

ordered_json generation_config_of(const Vocabulary& vocabulary) {
  ordered_json stops = ordered_json::array();
  if (vocabulary.eos >= 0) stops.push_back(vocabulary.eos);
  for (const TokenId token : vocabulary.stops) {
    if (token != vocabulary.eos) stops.push_back(token);
  }
  ordered_json config = ordered_json::object();
  if (!stops.empty()) config["eos_token_id"] = stops;
  if (vocabulary.bos >= 0) config["bos_token_id"] = vocabulary.bos;
  return config;
}

expected<void> write_all(const Model& model, const std::string& folder) {
  const Vocabulary& vocabulary = model.tokenizer->vocabulary();
  if (auto done = write_folder_weights(folder, *model.weights); !done) return done;
  if (auto done = write_text(folder + "/tokenizer.json", tokenizer_json_of(vocabulary).dump()); !done) return done;
  if (auto done = write_text(folder + "/tokenizer_config.json", tokenizer_config_of(vocabulary).dump(2)); !done) {
    return done;
  }
  return write_text(folder + "/generation_config.json", generation_config_of(vocabulary).dump(2));
}

}  // namespace

expected<SnapshotPtr> weights_of_image(const Snapshot& like, std::span<const TensorView> image, Version version) {
  Weights weights = like.weights;
  const bool tied = like.architecture.tied;
  NamedTensors tensors;
  for_each_tensor(weights, tied, [&](const std::string& name, at::Tensor& tensor) {
    tensor = at::empty_like(tensor);
    tensors.push_back({name, tensor});
  });
  if (tied) weights.head = weights.embedding;
  if (const auto copied = copy_image(image, tensors); !copied) return tl::unexpected(copied.error());
  return std::make_shared<const Snapshot>(version, like.architecture, std::move(weights));
}

expected<void> export_model(const Model& model, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path target = fs::absolute(folder + "/").parent_path();
  if (fs::exists(target, error)) return fail(folder + ": is there already; give the name of a new folder");
  const std::string unfinished = target.string() + ".unfinished";
  fs::remove_all(unfinished, error);
  fs::create_directories(unfinished, error);
  if (error) return fail(unfinished + ": " + error.message());
  if (auto done = write_all(model, unfinished); !done) {
    fs::remove_all(unfinished, error);
    return done;
  }
  fs::rename(unfinished, target, error);
  if (error) return fail(folder + ": " + error.message());
  return {};
}

}  // namespace millrace
