// The real model: exported as a Hugging Face folder and loaded again, and what memory loading takes.
#include <malloc.h>

#include <fstream>

#include "tests/models/reference.hpp"

#include "models/export.hpp"
#include "tests/text/smollm2.hpp"

namespace millrace {
namespace {

// A field of /proc/self/status in bytes.
std::int64_t status(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  }
  throw std::runtime_error("/proc/self/status has no " + field);
}

// Loads a model and returns the memory it took at most, as a multiple of its weights.
double peak_of_loading(const std::string& path, std::uint64_t& checksum) {
  malloc_trim(0);                               // what earlier models have left
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
  const std::int64_t before = status("VmRSS");
  const Model model = load_model({.path = path, .random = {}}, 0).value();
  const std::int64_t peak = status("VmHWM") - before;
  std::int64_t bytes = 0;
  for_each_tensor(
      model.weights->weights, model.weights->architecture.tied,
      [&](const std::string&, const at::Tensor& tensor) { bytes += static_cast<std::int64_t>(tensor.nbytes()); });
  checksum = checksum_of(*model.weights);
  return static_cast<double>(peak) / static_cast<double>(bytes);
}

TEST_CASE("SmolLM2 as a Hugging Face folder is the same model, and loading takes little more than its weights") {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("millrace-export-" + std::to_string(getpid()))).string();
  struct Remove {
    std::string path;
    ~Remove() { std::filesystem::remove_all(path); }
  } const remove{folder};
  {
    const Model model = load_model({.path = smollm2_path, .random = {}}, 0).value();
    REQUIRE(export_model(model, folder));
  }
  std::uint64_t of_gguf = 0, of_folder = 0;
  const double gguf = peak_of_loading(smollm2_path, of_gguf), exported = peak_of_loading(folder, of_folder);
  CHECK(of_gguf == of_folder);
  MESSAGE("peak memory of loading, over the weights: GGUF " << gguf << ", folder " << exported);
#ifndef __SANITIZE_ADDRESS__
  CHECK(gguf < 1.2);
  CHECK(exported < 1.2);
#endif

  const Model model = load_model({.path = folder, .random = {}}, 0).value();
  for (const auto& entry : golden()["tokens"])
    CHECK(model.tokenizer->encode(entry["text"].get<std::string>()) == entry["ids"].get<Tokens>());
  for (const auto& entry : golden()["special"])
    CHECK(model.tokenizer->encode_template(entry["text"].get<std::string>()) == entry["ids"].get<Tokens>());
  CHECK(model.tokenizer->eos() == 2);
  CHECK(model.tokenizer->chat_template() != nullptr);
}

}  // namespace
}  // namespace millrace
