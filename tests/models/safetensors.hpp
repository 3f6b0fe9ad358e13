#pragma once
// Reads the float32 tensors of a safetensors file (8 bytes of header length, a JSON header, the data) for tests that
// compare with models made by Hugging Face. Well-formed files only.
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/torch_doctest.hpp"

#include <nlohmann/json.hpp>

namespace millrace::testing {

inline std::map<std::string, at::Tensor> read_safetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::uint64_t header_size = 0;
  if (bytes.size() < sizeof header_size) throw std::runtime_error(path + ": no safetensors file");
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  const auto header = nlohmann::json::parse(bytes.substr(sizeof header_size, header_size));

  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    if (entry.at("dtype") != "F32") throw std::runtime_error(path + ": " + name + " is not F32");
    const std::string data =
        bytes.substr(sizeof header_size + header_size + entry.at("data_offsets")[0].get<std::size_t>());
    const at::Tensor tensor = at::empty(entry.at("shape").get<std::vector<std::int64_t>>(), at::kFloat);
    std::memcpy(tensor.data_ptr(), data.data(), tensor.nbytes());
    tensors.emplace(name, tensor);
  }
  return tensors;
}

}  // namespace millrace::testing
