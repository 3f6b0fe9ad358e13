#include "models/model.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <filesystem>
#include <fstream>

#include "models/compute.hpp"
#include "models/folder_weights.hpp"
#include "models/gguf_weights.hpp"
#include "models/text/gguf.hpp"
#include "models/text/tokenizer_json.hpp"
#include "models/transformer.hpp"

namespace millrace {

namespace {

// Byte-level transformer with normal(0, init_std) weights and norms of 1: the same seed, the same weights.
expected<Model> random_model(const RandomModelSettings& settings, std::uint64_t seed) {
  Model model;
  model.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::bytes());
  model.name = "random";
  Architecture a;
  a.vocab = static_cast<std::int64_t>(model.tokenizer->size());
  a.hidden = settings.hidden;
  a.layers = settings.layers;
  a.heads = settings.heads;
  a.kv_heads = settings.kv_heads;
  a.intermediate = settings.intermediate;
  if (settings.experts > 0) {
    a.family = "qwen3_moe";
    a.qk_norm = true;
    a.experts = settings.experts;
    a.experts_per_token = settings.experts_per_token;
    if (a.experts_per_token > a.experts)
      return fail("model.random.experts_per_token: must be at most model.random.experts");
  }
  if (const auto heads = divide_into_heads(a); !heads) return fail("model.random: " + heads.error().message);
  Weights weights = empty_weights(a);
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for_each_tensor(weights, a.tied, [&](const std::string& name, at::Tensor& tensor) {
    const auto shape = shape_of(a, name);
    tensor = shape.size() == 1 ? at::ones(shape) : at::normal(0.0, settings.init_std, shape, generator);
  });
  weights.head = weights.embedding;
  model.weights = std::make_shared<const Snapshot>(Version{0}, a, std::move(weights));
  return model;
}

expected<Model> load_gguf(const std::string& path) {
  const expected<GgufFile> file = GgufFile::open(path);
  if (!file) return tl::unexpected(file.error());
  expected<Vocabulary> vocabulary = read_vocabulary(*file);
  if (!vocabulary) return fail(path + ": " + vocabulary.error().message);
  expected<Tokenizer> tokenizer = Tokenizer::make(std::move(*vocabulary));
  if (!tokenizer) return fail(path + ": " + tokenizer.error().message);
  expected<SnapshotPtr> weights = read_weights(*file, static_cast<std::int64_t>(tokenizer->size()));
  if (!weights) return fail(path + ": " + weights.error().message);
  Model model;
  model.weights = *weights;
  model.tokenizer = std::make_shared<const Tokenizer>(std::move(*tokenizer));
  model.name = std::filesystem::path(path).stem().string();
  return model;
}

expected<Model> load_folder(const std::string& path) {
  expected<Vocabulary> vocabulary = read_tokenizer_folder(path);
  if (!vocabulary) return tl::unexpected(vocabulary.error());
  expected<Tokenizer> tokenizer = Tokenizer::make(std::move(*vocabulary));
  if (!tokenizer) return fail(path + ": " + tokenizer.error().message);
  expected<SnapshotPtr> weights = read_folder_weights(path, static_cast<std::int64_t>(tokenizer->size()));
  if (!weights) return tl::unexpected(weights.error());
  Model model;
  model.weights = *weights;
  model.tokenizer = std::make_shared<const Tokenizer>(std::move(*tokenizer));
  model.name = std::filesystem::absolute(path + "/").parent_path().filename().string();
  return model;
}

}  // namespace

Version version_of(const Snapshot& snapshot) { return snapshot.version; }

SnapshotPtr renumbered(const Snapshot& snapshot, Version version) {
  return std::make_shared<const Snapshot>(version, snapshot.architecture, snapshot.weights);
}

void prepare(const Snapshot& snapshot, const std::string& dtype, const std::string& device) {
  snapshot.prepare(compute_of(dtype, device));
}

std::uint64_t checksum_of(const Snapshot& snapshot) {
  std::uint64_t sum = 0;
  for_each_tensor(snapshot.weights, snapshot.architecture.tied, [&](const std::string&, const at::Tensor& there) {
    const at::Tensor tensor = there.cpu();
    sum = XXH3_64bits_withSeed(tensor.const_data_ptr(), tensor.nbytes(), sum);
  });
  return sum;
}

expected<Model> load_model(const ModelSettings& settings, std::uint64_t seed) {
  if (settings.path.empty()) return random_model(settings.random, seed);
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(settings.path, error);
  return is_folder ? load_folder(settings.path) : load_gguf(settings.path);
}

void use_threads(int threads) { at::set_num_threads(threads); }

std::string machine_type() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

}  // namespace millrace
