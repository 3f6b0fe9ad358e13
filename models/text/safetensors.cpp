// The format: https://github.com/huggingface/safetensors#format
#include "models/text/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include "models/text/byte_reader.hpp"
#include "models/text/half.hpp"
#include "models/text/json_file.hpp"
#include "models/text/mapped_file.hpp"
#include "models/text/utf8.hpp"

namespace millrace {
namespace {

using nlohmann::json;

constexpr std::uint64_t longest_header = 100'000'000;  // bytes, as the reference implementation has it

std::optional<std::uint64_t> size_of_type(const std::string& type) {  // bytes
  static const std::map<std::string, std::uint64_t> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"F64", 8},     {"I64", 8}, {"U64", 8}};
  const auto found = sizes.find(type);
  return found == sizes.end() ? std::nullopt : std::optional(found->second);
}

FloatType float_type(const std::string& type) {
  return type == "F32"    ? FloatType::f32
         : type == "F16"  ? FloatType::f16
         : type == "BF16" ? FloatType::bf16
                          : FloatType::other;
}

// The header's entry of one tensor. `data` is all of the file behind the header.
expected<StoredTensor> read_entry(const json& entry, std::span<const std::byte> data) {
  const auto field = [&](const char* key) -> const json& {
    static const json nothing;
    const auto found = entry.is_object() ? entry.find(key) : entry.end();
    return entry.is_object() && found != entry.end() ? *found : nothing;
  };
  StoredTensor tensor;
  if (!field("dtype").is_string()) return fail("dtype: a text is expected");
  tensor.type_name = field("dtype").get<std::string>();
  const auto size = size_of_type(tensor.type_name);
  if (!size) return fail("dtype: " + in_quotes(tensor.type_name) + " is unknown");
  tensor.type = float_type(tensor.type_name);

  if (!field("shape").is_array()) return fail("shape: an array is expected");
  std::uint64_t bytes = *size;
  for (const json& extent : field("shape")) {
    if (!extent.is_number_unsigned()) return fail("shape: whole numbers from 0 on are expected");
    const auto number = extent.get<std::uint64_t>();
    if (!std::in_range<std::int64_t>(number) || __builtin_mul_overflow(bytes, number, &bytes)) {
      return fail("shape: its size in bytes is beyond 2^64");
    }
    tensor.shape.push_back(static_cast<std::int64_t>(number));
  }

  const json& offsets = field("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return fail("data_offsets: two whole numbers from 0 on are expected");
  }
  const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
  if (begin > end) return fail("data_offsets: they are in reverse order");
  if (end > data.size()) {
    return fail("data_offsets: " + std::to_string(end) + " lies beyond the " + std::to_string(data.size()) +
                " bytes of data in the file");
  }
  if (end - begin != bytes) {
    return fail("data_offsets: they enclose " + std::to_string(end - begin) + " bytes, dtype and shape ask for " +
                std::to_string(bytes));
  }
  tensor.data = data.subspan(begin, end - begin);
  return tensor;
}

// Tensors fill the data one after the other: no byte belongs to none or to two.
expected<void> check_layout(const std::map<std::string, StoredTensor>& tensors, std::span<const std::byte> data) {
  std::vector<std::pair<std::span<const std::byte>, const std::string*>> parts;
  for (const auto& [name, tensor] : tensors) parts.emplace_back(tensor.data, &name);
  std::ranges::sort(parts, {}, [](const auto& part) { return std::pair(part.first.data(), part.first.size()); });
  const std::byte* end = data.data();
  for (const auto& [part, name] : parts) {
    if (part.data() < end)
      return fail("tensor " + in_quotes(*name) + ": data_offsets: its bytes belong to another one, too");
    if (part.data() > end)
      return fail("tensor " + in_quotes(*name) + ": data_offsets: bytes before it belong to no tensor");
    end = part.data() + part.size();
  }
  if (end != data.data() + data.size()) {
    return fail("data: " + std::to_string(data.data() + data.size() - end) + " bytes at the end belong to no tensor");
  }
  return {};
}

}  // namespace

struct SafetensorsFile::State {
  MappedFile mapping;
  std::map<std::string, StoredTensor> tensors;

  expected<void> read();
};

expected<void> SafetensorsFile::State::read() {
  ByteReader reader(mapping.bytes());
  const auto size = reader.number<std::uint64_t>("header length");
  if (size > longest_header) reader.fail("header length", std::to_string(size) + " is beyond 100 MB");
  if (size == 0) reader.fail("header length", "is 0");
  const auto header = reader.take(size, "header length");
  if (reader.error()) return tl::unexpected(*reader.error());
  const std::span<const std::byte> data = mapping.bytes().subspan(reader.position());

  const auto* text = reinterpret_cast<const char*>(header.data());
  const json entries = json::parse(text, text + header.size(), nullptr, /*allow_exceptions=*/false);
  if (entries.is_discarded()) return fail("header: is no JSON in UTF-8");
  if (!entries.is_object())
    return fail(std::string("header: an object is expected, not a JSON ") + entries.type_name());
  for (const auto& [name, entry] : entries.items()) {
    if (name == "__metadata__") continue;
    auto tensor = read_entry(entry, data);
    if (!tensor) return fail("tensor " + in_quotes(name) + ": " + tensor.error().message);
    tensors.emplace(name, std::move(*tensor));
  }
  return check_layout(tensors, data);
}

SafetensorsFile::SafetensorsFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

expected<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  auto mapping = MappedFile::open(path);
  if (!mapping) return tl::unexpected(mapping.error());
  std::unique_ptr<State> state(new State{std::move(*mapping), {}});
  if (const auto done = state->read(); !done) return millrace::fail(path + ": " + done.error().message);
  return SafetensorsFile(std::move(state));
}

const std::map<std::string, StoredTensor>& SafetensorsFile::tensors() const { return state_->tensors; }
void SafetensorsFile::forget(const StoredTensor& tensor) const { state_->mapping.forget(tensor.data); }

expected<SafetensorsFolder> SafetensorsFolder::open(const std::string& folder) {
  const std::string index_path = folder + "/model.safetensors.index.json";
  std::map<std::string, std::vector<std::string>> wanted;  // tensors by file
  SafetensorsFolder opened;
  if (std::error_code error; !std::filesystem::exists(index_path, error)) {
    auto file = SafetensorsFile::open(folder + "/model.safetensors");
    if (!file) return tl::unexpected(file.error());
    for (const auto& entry : file->tensors()) opened.file_of_[entry.first] = 0;
    opened.files_.push_back(std::move(*file));
    return opened;
  }
  const auto index = read_json_object(index_path);
  if (!index) return tl::unexpected(index.error());
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object()) return fail(index_path + ": weight_map: an object is expected");
  for (const auto& [name, file] : map->items()) {
    const std::string shard = file.is_string() ? file.get<std::string>() : std::string();
    if (shard.empty() || shard.find('/') != std::string::npos || shard.find('\0') != std::string::npos) {
      return fail(index_path + ": weight_map: " + in_quotes(name) + ": the name of a file beside it is expected");
    }
    wanted[shard].push_back(name);
  }
  for (const auto& [shard, names] : wanted) {
    auto file = SafetensorsFile::open(folder + '/' + shard);
    if (!file) return tl::unexpected(file.error());
    for (const std::string& name : names) {
      if (!file->tensors().contains(name))
        return fail(folder + '/' + shard + ": tensor " + in_quotes(name) + " is missing");
      opened.file_of_[name] = opened.files_.size();
    }
    if (names.size() != file->tensors().size())
      return fail(folder + '/' + shard + ": has tensors that weight_map does not name");
    opened.files_.push_back(std::move(*file));
  }
  return opened;
}

const StoredTensor* SafetensorsFolder::find(const std::string& name) const {
  const auto found = file_of_.find(name);
  return found == file_of_.end() ? nullptr : &files_[found->second].tensors().at(name);
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : file_of_) names.push_back(entry.first);
  return names;
}

void SafetensorsFolder::forget(const std::string& name) const {
  const auto found = file_of_.find(name);
  if (found != file_of_.end()) files_[found->second].forget(files_[found->second].tensors().at(name));
}

void widen(const StoredTensor& tensor, std::span<float> out) {
  const std::byte* from = tensor.data.data();
  switch (tensor.type) {
    case FloatType::f32: std::memcpy(out.data(), from, out.size_bytes()); return;
    case FloatType::f16:
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = load_half(from + 2 * i);
      return;
    case FloatType::bf16:
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = load_brain(from + 2 * i);
      return;
    case FloatType::other: throw std::invalid_argument("widen: " + tensor.type_name);
  }
}

expected<void> write_safetensors(const std::string& path, const std::vector<NewTensor>& tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t offset = 0;
  for (const NewTensor& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.data.size_bytes()}}};
    offset += tensor.data.size_bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data are aligned
  const std::uint64_t size = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size) << text;
  for (const NewTensor& tensor : tensors) {
    file.write(reinterpret_cast<const char*>(tensor.data.data()),
               static_cast<std::streamsize>(tensor.data.size_bytes()));
  }
  file.close();
  if (!file) return fail(path + ": cannot be written, is the disk full?");
  return {};
}

}  // namespace millrace
