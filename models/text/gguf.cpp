// The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#include "models/text/gguf.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "models/text/byte_reader.hpp"
#include "models/text/gguf_value.hpp"
#include "models/text/mapped_file.hpp"
#include "models/text/utf8.hpp"

namespace millrace {
namespace {

struct Block {
  std::uint64_t elements;
  std::uint64_t bytes;
};

std::optional<Block> block_of(std::uint32_t type) {
  switch (static_cast<GgufType>(type)) {
    case GgufType::f32: return Block{1, 4};
    case GgufType::f16: return Block{1, 2};
    case GgufType::q4_0: return Block{32, 18};
    case GgufType::q4_1: return Block{32, 20};
    case GgufType::q8_0: return Block{32, 34};
    case GgufType::q4_k: return Block{256, 144};
    case GgufType::q6_k: return Block{256, 210};
    case GgufType::bf16: return Block{1, 2};
  }
  return std::nullopt;
}

// A tensor as the file announces it; its data lie `offset` bytes into the data section.
struct Announced {
  GgufTensor tensor;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

Announced read_tensor(ByteReader& reader, const std::string& number) {
  Announced announced;
  GgufTensor& tensor = announced.tensor;
  tensor.name = reader.text(number);
  const std::string field = "tensor " + in_quotes(tensor.name);
  if (tensor.name.empty()) reader.fail(number, "has no name");

  const auto dimensions = reader.number<std::uint32_t>(field);
  if (dimensions < 1 || dimensions > 4) {
    reader.fail(field, "has " + std::to_string(dimensions) + " dimensions, 1 to 4 are possible");
    return announced;
  }
  std::uint64_t elements = 1;
  std::uint64_t row = 0;  // elements
  bool overflow = false;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto size = reader.number<std::uint64_t>(field);
    if (size == 0) reader.fail(field, "dimension " + std::to_string(i) + " is 0");
    if (i == 0) row = size;
    overflow |= __builtin_mul_overflow(elements, size, &elements);
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
  }

  const auto type = reader.number<std::uint32_t>(field);
  announced.offset = reader.number<std::uint64_t>(field);
  const auto block = block_of(type);
  if (!block) {
    reader.fail(field, "is of type " + std::to_string(type) +
                           ", known are F32 (0), F16 (1), Q4_0 (2), Q4_1 (3), Q8_0 (8), " +
                           "Q4_K (12), Q6_K (14) and BF16 (30)");
    return announced;
  }
  tensor.type = static_cast<GgufType>(type);
  if (row % block->elements != 0) {
    reader.fail(field,
                "rows of " + std::to_string(row) + " values are no whole blocks of " + std::to_string(block->elements));
  }
  overflow |= __builtin_mul_overflow(elements / block->elements, block->bytes, &announced.bytes);
  if (overflow) reader.fail(field, "its size in bytes is beyond 2^64");
  return announced;
}

}  // namespace

struct GgufFile::State {
  MappedFile mapping;
  std::map<std::string, GgufValue> values;
  std::map<std::string, GgufTensor> tensors;

  std::optional<Error> read();
  void read_tensors(ByteReader& reader, std::uint64_t count);
  std::uint64_t alignment(ByteReader& reader) const;

  const GgufValue* find(const std::string& key, bool is_array) const {
    const auto found = values.find(key);
    return found != values.end() && found->second.is_array == is_array ? &found->second : nullptr;
  }
  tl::unexpected<Error> refuse(const std::string& key, const std::string& wanted) const {
    return millrace::fail(key + (values.contains(key) ? " is not " : " is missing: it should be ") + wanted);
  }
};

std::optional<Error> GgufFile::State::read() {
  ByteReader reader(mapping.bytes());
  const auto magic = reader.take(4, "magic");
  if (magic.size() == 4 && std::memcmp(magic.data(), "GGUF", 4) != 0) reader.fail("magic", "not a GGUF file");
  if (const auto version = reader.number<std::uint32_t>("version"); version != 2 && version != 3) {
    reader.fail("version", std::to_string(version) + " is unknown, 2 and 3 can be read");
  }
  const auto tensor_count = reader.number<std::uint64_t>("tensor count");
  const auto value_count = reader.number<std::uint64_t>("metadata count");
  // What one of them takes at least: a count that cannot be right is refused at once.
  reader.check_count(tensor_count, 32, "tensor count");
  reader.check_count(value_count, 12, "metadata count");
  for (std::uint64_t i = 0; i < value_count && !reader.error(); ++i) {
    const std::string number = "metadata key " + std::to_string(i);
    const std::string key(reader.text(number));
    if (key.empty()) reader.fail(number, "is empty");
    const GgufValue value = read_gguf_value(reader, in_quotes(key));
    if (!values.emplace(key, value).second) reader.fail(in_quotes(key), "is there twice");
  }
  read_tensors(reader, tensor_count);
  return reader.error();
}

void GgufFile::State::read_tensors(ByteReader& reader, std::uint64_t count) {
  std::vector<Announced> announced;
  for (std::uint64_t i = 0; i < count && !reader.error(); ++i) {
    announced.push_back(read_tensor(reader, "tensor " + std::to_string(i)));
  }
  const std::uint64_t align = alignment(reader);
  if (reader.error()) return;

  const std::span<const std::byte> file = mapping.bytes();
  const std::size_t begin = std::min((reader.position() + align - 1) / align * align, file.size());
  const std::span<const std::byte> data = file.subspan(begin);
  for (Announced& a : announced) {
    const std::string field = "tensor " + in_quotes(a.tensor.name);
    if (a.offset % align != 0) {
      return reader.fail(field, "offset " + std::to_string(a.offset) + " is no multiple of " + std::to_string(align));
    }
    if (a.offset > data.size() || a.bytes > data.size() - a.offset) {
      return reader.fail(field, std::to_string(a.bytes) + " bytes at offset " + std::to_string(a.offset) +
                                    " reach beyond the " + std::to_string(data.size()) + " bytes of data in the file");
    }
    a.tensor.data = data.subspan(a.offset, a.bytes);
    std::string name = a.tensor.name;
    if (!tensors.emplace(std::move(name), std::move(a.tensor)).second) return reader.fail(field, "is there twice");
  }
}

std::uint64_t GgufFile::State::alignment(ByteReader& reader) const {
  const std::string key = "general.alignment";
  const GgufValue* value = find(key, false);
  if (!value) return 32;
  ByteReader bytes(value->bytes);
  const std::int64_t align = read_integer(bytes, value->type).value_or(0);
  if (align <= 0 || align > 1 << 20 || !std::has_single_bit(static_cast<std::uint64_t>(align))) {
    reader.fail(key, "is not a power of two up to 2^20");
    return 32;
  }
  return static_cast<std::uint64_t>(align);
}

GgufFile::GgufFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

expected<GgufFile> GgufFile::open(const std::string& path) {
  auto mapping = MappedFile::open(path);
  if (!mapping) return tl::unexpected(mapping.error());
  std::unique_ptr<State> state(new State{std::move(*mapping), {}, {}});
  if (const auto error = state->read()) return millrace::fail(path + ": " + error->message);
  return GgufFile(std::move(state));
}

bool GgufFile::has(const std::string& key) const { return state_->values.contains(key); }
const std::map<std::string, GgufTensor>& GgufFile::tensors() const { return state_->tensors; }

void GgufFile::forget(const GgufTensor& tensor) const { state_->mapping.forget(tensor.data); }

expected<std::string> GgufFile::text(const std::string& key) const {
  const GgufValue* value = state_->find(key, false);
  if (!value || value->type != GgufValueType::text) return state_->refuse(key, "a text");
  return std::string(ByteReader(value->bytes).text(key));
}

expected<std::int64_t> GgufFile::integer(const std::string& key) const {
  const GgufValue* value = state_->find(key, false);
  if (!value) return state_->refuse(key, "an integer");
  ByteReader reader(value->bytes);
  const auto integer = read_integer(reader, value->type);
  if (!integer) return state_->refuse(key, "an integer of at most 63 bits");
  return *integer;
}

expected<double> GgufFile::number(const std::string& key) const {
  const GgufValue* value = state_->find(key, false);
  const std::string wanted = "a float, or an integer of at most 63 bits";
  if (!value) return state_->refuse(key, wanted);
  ByteReader reader(value->bytes);
  if (value->type == GgufValueType::f32) return reader.number<float>(key);
  if (value->type == GgufValueType::f64) return reader.number<double>(key);
  const auto integer = read_integer(reader, value->type);
  if (!integer) return state_->refuse(key, wanted);
  return static_cast<double>(*integer);
}

expected<std::vector<std::string>> GgufFile::texts(const std::string& key) const {
  const GgufValue* value = state_->find(key, true);
  if (!value || value->type != GgufValueType::text) return state_->refuse(key, "an array of texts");
  std::vector<std::string> texts;
  texts.reserve(value->count);
  ByteReader reader(value->bytes);
  for (std::uint64_t i = 0; i < value->count; ++i) texts.emplace_back(reader.text(key));
  return texts;
}

expected<std::vector<std::int64_t>> GgufFile::integers(const std::string& key) const {
  const GgufValue* value = state_->find(key, true);
  if (!value) return state_->refuse(key, "an array of integers");
  std::vector<std::int64_t> integers;
  ByteReader reader(value->bytes);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto integer = read_integer(reader, value->type);
    if (!integer) return state_->refuse(key, "an array of integers of at most 63 bits");
    integers.push_back(*integer);
  }
  return integers;
}

}  // namespace millrace
