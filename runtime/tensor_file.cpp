#include "runtime/tensor_file.hpp"

#include <bit>
#include <cstring>

#include <nlohmann/json.hpp>

namespace millrace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

expected<FileSum> write_tensor_file(const std::string& path, const TensorViews& tensors) {
  auto header = nlohmann::ordered_json::object();
  std::uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data begins aligned
  const std::uint64_t length = text.size();

  auto file = DurableFile::create(path);
  if (!file) return tl::unexpected(file.error());
  auto written = file->write(std::as_bytes(std::span(&length, 1))).and_then([&] { return file->write(text); });
  for (const TensorView& tensor : tensors) {
    if (written) written = file->write(tensor.bytes);
  }
  if (!written) return tl::unexpected(written.error());
  return file->finish();
}

expected<TensorFile> TensorFile::open(const std::string& path, const FileSum& sum) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return tl::unexpected(mapped.error());
  const auto bytes = mapped->bytes();
  if (bytes.size() != sum.bytes) {
    return fail(path + ": " + std::to_string(bytes.size()) + " bytes, " + std::to_string(sum.bytes) + " were written");
  }
  if (xxh3_of(bytes) != sum.xxh3) return fail(path + ": not what was written: its checksum differs");

  const auto malformed = [&](const std::string& what) { return fail(path + ": " + what); };
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) return malformed("no header");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > bytes.size() - sizeof length) return malformed("its header is longer than the file");
  const auto data = bytes.subspan(sizeof length + length);
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + sizeof length;
  const auto header = nlohmann::json::parse(text, text + length, nullptr, false);
  if (!header.is_object()) return malformed("its header is not JSON");

  TensorFile file(std::move(*mapped));
  try {
    for (const auto& [name, entry] : header.items()) {
      const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
      const auto end = entry.at("data_offsets").at(1).get<std::uint64_t>();
      if (begin > end || end > data.size()) return malformed(name + " lies outside the file");
      TensorView view{name, entry.at("dtype"), entry.at("shape"), data.subspan(begin, end - begin)};
      std::uint64_t expected_bytes = view.dtype == "F32" ? 4 : 8;
      for (const std::int64_t size : view.shape) expected_bytes *= static_cast<std::uint64_t>(size);
      if (expected_bytes != view.bytes.size()) return malformed(name + " is not as large as its shape says");
      file.tensors_.push_back(std::move(view));
    }
  } catch (const nlohmann::json::exception& error) {
    return malformed(std::string("its header: ") + error.what());
  }
  return file;
}

}  // namespace millrace
