#pragma once
// Safetensors, the file format of Hugging Face: a JSON header, then the tensors' bytes without gaps. Files are mapped
// into memory, not read. Every size and offset is checked before it is used; an error names the file and the tensor.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/expected.hpp"

namespace millrace {

enum class FloatType { f32, f16, bf16, other };  // other: integers, float64, 8 bits

struct StoredTensor {
  FloatType type = FloatType::other;
  std::string type_name;            // as the file has it: "BF16"
  std::vector<std::int64_t> shape;  // outermost first
  std::span<const std::byte> data;  // inside the mapped file
};

class SafetensorsFile {
 public:
  static expected<SafetensorsFile> open(const std::string& path);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  const std::map<std::string, StoredTensor>& tensors() const;
  // The pages of a tensor leave this process's memory; they come back from the disk if they are read again.
  void forget(const StoredTensor& tensor) const;

 private:
  struct State;
  explicit SafetensorsFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// All tensors of a folder: model.safetensors, or the files that model.safetensors.index.json names.
class SafetensorsFolder {
 public:
  static expected<SafetensorsFolder> open(const std::string& folder);

  // Null: there is none of that name.
  const StoredTensor* find(const std::string& name) const;
  std::vector<std::string> names() const;
  void forget(const std::string& name) const;

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> file_of_;  // by tensor
};

// Writes the values as float32 into `out`, which has room for all of them. `type` must not be `other`.
void widen(const StoredTensor& tensor, std::span<float> out);

// Writes one file of float32 tensors. `data` is read when the tensor's turn comes. Error: it cannot be written.
struct NewTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> data;
};
expected<void> write_safetensors(const std::string& path, const std::vector<NewTensor>& tensors);

}  // namespace millrace
