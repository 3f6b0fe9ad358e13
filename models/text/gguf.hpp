#pragma once
// GGUF, the file format of llama.cpp: metadata and quantised tensors in one file, mapped into memory, not read.
// Every count, offset and size is checked before it is used; a malformed file is an error that names the field.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/expected.hpp"
#include "models/text/tokenizer.hpp"

namespace millrace {

enum class GgufType : std::uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q8_0 = 8, q4_k = 12, q6_k = 14, bf16 = 30 };

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  std::vector<std::int64_t> shape;  // outermost first: rows, then columns (the reverse of the file's order)
  std::span<const std::byte> data;  // inside the mapped file
};

class GgufFile {
 public:
  // The error names the file and what in it is wrong; the errors of all others name the key, not the file.
  static expected<GgufFile> open(const std::string& path);
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  expected<std::string> text(const std::string& key) const;      // error: missing, or another type
  expected<std::int64_t> integer(const std::string& key) const;  // any integer type that fits
  expected<double> number(const std::string& key) const;         // any number that fits
  bool has(const std::string& key) const;
  expected<std::vector<std::string>> texts(const std::string& key) const;
  expected<std::vector<std::int64_t>> integers(const std::string& key) const;
  const std::map<std::string, GgufTensor>& tensors() const;
  void forget(const GgufTensor& tensor) const;  // its pages leave this process's memory until they are read again

 private:
  struct State;
  explicit GgufFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Writes the tensor's values as float32 into `out`, which has room for all of them. [rows, columns], row-major.
void dequantise(const GgufTensor& tensor, std::span<float> out);

// tokenizer.ggml.*: tokens, merges, token types, pre-tokenizer, chat template.
expected<Vocabulary> read_vocabulary(const GgufFile& file);

}  // namespace millrace
