#pragma once
// Makes GGUF files for tests, good ones and broken ones: numbers and texts in file order, nothing is checked.
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

enum GgufTypeCode : std::uint32_t {
  type_u8 = 0,
  type_u32 = 4,
  type_i32 = 5,
  type_f32 = 6,
  type_text = 8,
  type_array = 9
};

class GgufBytes {
 public:
  GgufBytes(std::uint64_t tensor_count, std::uint64_t value_count) {
    bytes_ = "GGUF";
    number<std::uint32_t>(3).number(tensor_count).number(value_count);
  }

  template <class T>
  GgufBytes& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBytes& text(std::string_view text) {
    number<std::uint64_t>(text.size());
    bytes_ += text;
    return *this;
  }
  GgufBytes& key(std::string_view name, std::uint32_t type) { return text(name).number(type); }
  GgufBytes& array(std::string_view name, std::uint32_t type, std::uint64_t count) {
    return key(name, type_array).number(type).number(count);
  }
  GgufBytes& texts(std::string_view name, const std::vector<std::string>& texts) {
    array(name, type_text, texts.size());
    for (const std::string& t : texts) text(t);
    return *this;
  }
  GgufBytes& integers(std::string_view name, const std::vector<std::int32_t>& integers) {
    array(name, type_i32, integers.size());
    for (const std::int32_t i : integers) number(i);
    return *this;
  }
  // Sizes in the file's order: columns first.
  GgufBytes& tensor(std::string_view name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                    std::uint64_t offset = 0) {
    text(name).number(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) number(size);
    return number(type).number(offset);
  }
  GgufBytes& align() {
    bytes_.resize((bytes_.size() + 31) / 32 * 32);
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// A file that goes away with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view bytes) {
    path_ = (std::filesystem::temp_directory_path() / "millrace-XXXXXX").string();
    const int file = mkstemp(path_.data());
    if (file < 0) throw std::runtime_error("no temporary file");
    close(file);
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace millrace
