#include "models/folder_weights.hpp"

#include <fstream>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "models/folder_config.hpp"
#include "models/text/json_file.hpp"
#include "models/text/safetensors.hpp"

namespace millrace {

namespace {

// Our tensor of all experts is one a file's tensor each: mlp.experts.gate_proj.weight ->
// mlp.experts.7.gate_proj.weight.
std::string name_of_expert(const std::string& name, std::int64_t expert) {
  const std::string experts = ".experts.";
  const std::size_t at = name.find(experts) + experts.size();
  return name.substr(0, at) + std::to_string(expert) + '.' + name.substr(at);
}

bool is_stacked(const std::string& name) { return name.find(".experts.") != std::string::npos; }

// Reads one tensor of the files into `into`, whose shape it must have; `may_be_padded`: more rows are fine.
expected<void> read_tensor(const SafetensorsFolder& files, const std::string& name, const at::Tensor& into,
                           bool may_be_padded) {
  const StoredTensor* stored = files.find(name);
  if (!stored) return fail("tensor " + name + " is missing");
  if (stored->type == FloatType::other) {
    return fail("tensor " + name + ": is of type " + stored->type_name + ", known are F32, F16 and BF16");
  }
  std::vector<std::int64_t> shape = into.sizes().vec();
  const bool padded = may_be_padded && !stored->shape.empty() && stored->shape[0] > shape[0];
  if (padded) shape[0] = stored->shape[0];
  if (stored->shape != shape) {
    return fail("tensor " + name + ": shape " + text_of(stored->shape) + ", expected " + text_of(into.sizes()));
  }
  StoredTensor rows = *stored;
  const auto wanted = static_cast<std::size_t>(into.numel());
  rows.data = rows.data.first(rows.type == FloatType::f32 ? wanted * 4 : wanted * 2);
  widen(rows, {into.data_ptr<float>(), wanted});
  files.forget(name);
  return {};
}

bool is_harmless(const std::string& name, bool tied) {
  return name.ends_with("rotary_emb.inv_freq") || (tied && name == "lm_head.weight");
}

}  // namespace

expected<SnapshotPtr> read_folder_weights(const std::string& folder, std::int64_t vocab) {
  const auto config = read_json_object(folder + "/config.json");
  if (!config) return tl::unexpected(config.error());
  expected<Architecture> architecture = read_config(*config);
  if (!architecture) return fail(folder + "/config.json: " + architecture.error().message);
  Architecture& a = *architecture;
  if (vocab > a.vocab) {
    return fail(folder + "/config.json: vocab_size: " + std::to_string(a.vocab) + " is less than the tokenizer's " +
                std::to_string(vocab) + " tokens");
  }
  if (vocab > 0) a.vocab = vocab;
  const auto files = SafetensorsFolder::open(folder);
  if (!files) return tl::unexpected(files.error());
  if (a.layers > static_cast<std::int64_t>(files->names().size())) {
    return fail(folder + ": num_hidden_layers: " + std::to_string(a.layers) +
                " layers need more tensors than there are");
  }

  Weights weights = empty_weights(a);
  std::set<std::string> read;
  expected<void> result;
  const auto read_one = [&](const std::string& name, const at::Tensor& into, bool is_vocabulary) {
    read.insert(name);
    if (result) result = read_tensor(*files, name, into, is_vocabulary);
  };
  for_each_tensor(weights, a.tied, [&](const std::string& name, at::Tensor& tensor) {
    if (!result) return;
    // Checked before anything is allocated: a config may claim sizes that no file has.
    const std::vector<std::int64_t> shape = shape_of(a, name);
    const std::string first = is_stacked(name) ? name_of_expert(name, 0) : name;
    if (!files->find(first)) {
      result = fail("tensor " + first + " is missing");
      return;
    }
    if (is_stacked(name)) {
      const std::string last = name_of_expert(name, shape[0] - 1);
      if (!files->find(last)) {
        result = fail("tensor " + last + " is missing");
        return;
      }
    }
    const StoredTensor& stored = *files->find(first);
    const std::size_t tensors = is_stacked(name) ? static_cast<std::size_t>(shape[0]) : 1;
    std::size_t values = 1;
    bool overflow = false;
    for (const std::int64_t extent : shape)
      overflow |= __builtin_mul_overflow(values, static_cast<std::size_t>(extent), &values);
    if (overflow || values / tensors > stored.data.size() / 2) {
      result = fail("tensor " + first + ": shape " + text_of(stored.shape) + ", expected " + text_of(shape));
      return;
    }
    tensor = at::empty(shape, at::kFloat);
    const bool is_vocabulary = name == "model.embed_tokens.weight" || name == "lm_head.weight";
    if (!is_stacked(name)) return read_one(name, tensor, is_vocabulary);
    for (std::int64_t e = 0; e < a.experts; ++e) read_one(name_of_expert(name, e), tensor[e], false);
  });
  if (!result) return fail(folder + ": " + result.error().message);
  for (const std::string& name : files->names()) {
    if (!read.contains(name) && !is_harmless(name, a.tied)) {
      return fail(folder + ": tensor " + name + ": a model of type " + a.family + " has none of that name");
    }
  }
  if (a.tied) weights.head = weights.embedding;
  if (const expected<void> checked = check_weights(a, weights); !checked)
    return fail(folder + ": " + checked.error().message);
  return std::make_shared<const Snapshot>(Version{0}, a, std::move(weights));
}

expected<void> write_folder_weights(const std::string& folder, const Snapshot& snapshot) {
  std::vector<NewTensor> tensors;
  std::vector<at::Tensor> held;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    held.push_back(tensor.cpu().contiguous());
    tensors.push_back(
        {name, tensor.sizes().vec(), {held.back().const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())}});
  };
  const Architecture& a = snapshot.architecture;
  for_each_tensor(snapshot.weights, a.tied, [&](const std::string& name, const at::Tensor& tensor) {
    if (!is_stacked(name)) return add(name, tensor);
    for (std::int64_t e = 0; e < a.experts; ++e) add(name_of_expert(name, e), tensor[e]);
  });
  const std::string config_path = folder + "/config.json";
  std::ofstream config(config_path);
  config << config_of(a).dump(2) << '\n';
  config.close();
  if (!config) return fail(config_path + ": cannot be written");
  return write_safetensors(folder + "/model.safetensors", tensors);
}

}  // namespace millrace
