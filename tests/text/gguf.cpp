#include "models/text/gguf.hpp"

#include <random>

#include <doctest/doctest.h>

#include "tests/text/gguf_bytes.hpp"
#include "tests/text/refusal_time.hpp"
#include "tests/text/smollm2.hpp"

namespace millrace {
namespace {

constexpr std::uint32_t f32 = 0;
constexpr std::uint32_t q4_0 = 2;

// One value of each kind and a tensor of 2 rows and 3 columns.
std::string good_file() {
  GgufBytes file(1, 6);
  file.key("name", type_text).text("mill");
  file.key("layers", type_u32).number<std::uint32_t>(30);
  file.key("epsilon", type_f32).number(0.5f);
  file.key("huge", 10).number<std::uint64_t>(1ull << 63);
  file.texts("words", {"a", "", "race"});
  file.array("small", type_u8, 3).number<std::uint8_t>(7).number<std::uint8_t>(8).number<std::uint8_t>(255);
  file.tensor("w", {3, 2}, f32).align();
  for (const float value : {1.f, 2.f, 3.f, 4.f, 5.f, 6.f}) file.number(value);
  return file.bytes();
}

std::string error_of(std::string_view bytes) {
  const TemporaryFile file(bytes);
  const auto opened = GgufFile::open(file.path());
  return opened ? "" : opened.error().message;
}

TEST_CASE("values and tensors come out as they went in") {
  const TemporaryFile temporary(good_file());
  const auto file = GgufFile::open(temporary.path());
  REQUIRE_MESSAGE(file, file.error().message);
  CHECK(file->text("name") == "mill");
  CHECK(file->integer("layers") == 30);
  CHECK(file->number("layers") == 30.0);
  CHECK(file->number("epsilon") == 0.5);
  CHECK(file->texts("words") == std::vector<std::string>{"a", "", "race"});
  CHECK(file->integers("small") == std::vector<std::int64_t>{7, 8, 255});
  CHECK(file->has("huge"));
  CHECK_FALSE(file->has("nothing"));

  REQUIRE(file->tensors().size() == 1);
  const GgufTensor& tensor = file->tensors().at("w");
  CHECK(tensor.shape == std::vector<std::int64_t>{2, 3});
  std::vector<float> values(6);
  dequantise(tensor, values);
  CHECK(values == std::vector<float>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("what is asked for as another type is an error that names the key and the right type") {
  const TemporaryFile temporary(good_file());
  const auto file = GgufFile::open(temporary.path());
  REQUIRE(file);
  CHECK(file->integer("nothing").error().message == "nothing is missing: it should be an integer");
  CHECK(file->text("layers").error().message == "layers is not a text");
  CHECK(file->text("words").error().message == "words is not a text");
  CHECK(file->integer("epsilon").error().message == "epsilon is not an integer of at most 63 bits");
  CHECK(file->integer("huge").error().message == "huge is not an integer of at most 63 bits");
  CHECK(file->integer("small").error().message == "small is not an integer");
  CHECK(file->number("name").error().message == "name is not a float, or an integer of at most 63 bits");
  CHECK(file->texts("small").error().message == "small is not an array of texts");
  CHECK(file->integers("words").error().message == "words is not an array of integers of at most 63 bits");
}

// Fault B29: each of these has taken down a loader. An answer within 100 ms that names what is wrong.
TEST_CASE("a malformed file is refused at once, and the error names the field") {
  constexpr std::uint64_t two31 = 1ull << 31;
  constexpr std::uint64_t two62 = 1ull << 62;
  constexpr std::uint64_t two63 = 1ull << 63;
  struct Case {
    std::string bytes;
    std::string error;
  };
  const auto one_tensor = [](const std::vector<std::uint64_t>& sizes, std::uint32_t type, std::uint64_t offset = 0) {
    return GgufBytes(1, 0).tensor("w", sizes, type, offset).align().number<std::uint64_t>(0).bytes();
  };
  const auto one_value = [](auto&&... write) {
    GgufBytes file(0, 1);
    (write(file), ...);
    return file.bytes();
  };
  const Case cases[] = {
      {one_tensor({two31, two31}, f32), "tensor \"w\": its size in bytes is beyond 2^64"},
      {one_tensor({two62 + 2}, f32), "tensor \"w\": its size in bytes is beyond 2^64"},
      {one_tensor({two62 - 4}, f32), "tensor \"w\": 18446744073709551600 bytes at offset 0 reach beyond the 8 bytes"},
      {one_tensor({two31, two31, two31}, f32), "tensor \"w\": its size in bytes is beyond 2^64"},
      {one_tensor({0}, f32), "tensor \"w\": dimension 0 is 0"},
      {one_tensor({2, 0}, f32), "tensor \"w\": dimension 1 is 0"},
      {one_tensor({}, f32), "tensor \"w\": has 0 dimensions"},
      {one_tensor({1, 1, 1, 1, 1}, f32), "tensor \"w\": has 5 dimensions"},
      {one_tensor({2}, 13), "tensor \"w\": is of type 13"},
      {one_tensor({48, 2}, q4_0), "tensor \"w\": rows of 48 values are no whole blocks of 32"},
      {one_tensor({2}, f32, 8), "tensor \"w\": offset 8 is no multiple of 32"},
      {one_tensor({2}, f32, 32), "tensor \"w\": 8 bytes at offset 32 reach beyond the 8 bytes"},
      {one_tensor({2}, f32, two63), "tensor \"w\": 8 bytes at offset 9223372036854775808 reach beyond the 8 bytes"},
      {GgufBytes(1, 0).tensor("", {2}, f32).align().bytes(), "tensor 0: has no name"},
      {GgufBytes(2, 0).tensor("w", {1}, f32).tensor("w", {1}, f32).align().number(0).bytes(),
       "tensor \"w\": is there twice"},
      {GgufBytes(two63, 0).tensor("w", {1}, f32).align().number(0).bytes(), "tensor count: 9223372036854775808"},
      {GgufBytes(0, two63).key("a", type_u8).number<std::uint8_t>(1).bytes(), "metadata count: 9223372036854775808"},
      {one_value([](GgufBytes& f) { f.key("", type_u32).number(1); }), "metadata key 0: is empty"},
      {one_value([](GgufBytes& f) { f.key("a", 13).number(1); }), "\"a\": is of type 13"},
      {one_value([](GgufBytes& f) { f.array("a", type_array, 1).number(type_u8).number<std::uint64_t>(0); }),
       "\"a\": is of type 9"},
      {one_value([](GgufBytes& f) { f.array("a", type_f32, two62 + 1).number(1.f); }),
       "\"a\": 4611686018427387905 do not fit in the 4 bytes"},
      {one_value([](GgufBytes& f) { f.array("a", type_text, two62).text("b"); }),
       "\"a\": 4611686018427387904 do not fit in the 9 bytes"},
      {one_value([](GgufBytes& f) { f.array("a", type_text, 1).number(two63).number(two63); }),
       "\"a\": needs 9223372036854775808 bytes"},
      {one_value([](GgufBytes& f) { f.number(two63).number(type_u32).number(1); }),
       "metadata key 0: needs 9223372036854775808 bytes"},
      {one_value([](GgufBytes& f) { f.key("general.alignment", type_u32).number(24); }),
       "general.alignment: is not a power of two"},
      {one_value([](GgufBytes& f) { f.key("general.alignment", type_u32).number(0); }),
       "general.alignment: is not a power of two"},
      {GgufBytes(0, 2).key("a", type_u32).number(1).key("a", type_u32).number(1).bytes(), "\"a\": is there twice"},
      {std::string(64, 'x'), "magic: not a GGUF file"},
      {"GGUF" + std::string(64, '\1'), "version: 16843009 is unknown"},
      {"GG", "magic: needs 4 bytes"},
      {"", "a file with something in it is expected"},
  };
  for (const Case& c : cases) {
    const double start = processor_seconds();
    const std::string error = error_of(c.bytes);
    CHECK(processor_seconds() - start < refusal_seconds);
    CAPTURE(c.error);
    CHECK_MESSAGE(error.find(": " + c.error) != std::string::npos, error);
  }
}

TEST_CASE("every file cut short is refused") {
  const std::string good = good_file();
  for (std::size_t size = 0; size < good.size(); ++size) {
    CAPTURE(size);
    CHECK(error_of(good.substr(0, size)) != "");
  }
  CHECK(error_of(good) == "");
}

// What opens must then be safe to read: under AddressSanitizer a wrong bound shows here.
TEST_CASE("changed bytes never lead out of the file") {
  const std::string good = good_file();
  std::mt19937 random(29);
  int opened = 0;
  for (int i = 0; i < 600; ++i) {
    std::string bytes = good;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    const TemporaryFile temporary(bytes);
    const auto file = GgufFile::open(temporary.path());
    if (!file) {
      CHECK(file.error().message.starts_with(temporary.path() + ": "));
      continue;
    }
    ++opened;
    for (const char* key : {"words", "small"}) {
      const auto texts = file->texts(key);
      const auto integers = file->integers(key);
      CHECK_FALSE((texts && integers));
    }
    for (const auto& [name, tensor] : file->tensors()) {
      std::size_t elements = 1;
      for (const std::int64_t size : tensor.shape) elements *= static_cast<std::size_t>(size);
      REQUIRE(elements <= 2 * good.size());
      std::vector<float> values(elements);
      dequantise(tensor, values);
    }
  }
  CHECK(opened > 100);
}

TEST_CASE("a file that is not there, or none, is one clear line") {
  CHECK(GgufFile::open("/nowhere/model.gguf").error().message == "/nowhere/model.gguf: No such file or directory");
  CHECK(GgufFile::open("/tmp").error().message ==
        "/tmp: a file with something in it is expected, this is empty or no regular file");
}

TEST_CASE("the real model") {
  const GgufFile& file = smollm2_file();
  CHECK(file.text("general.architecture") == "llama");
  CHECK(file.integer("llama.block_count") == 30);
  CHECK(file.number("llama.rope.freq_base") == 100000.0);
  CHECK(file.tensors().size() == 272);
  CHECK(file.tensors().at("token_embd.weight").shape == std::vector<std::int64_t>{49152, 576});
  CHECK(file.tensors().at("blk.0.ffn_down.weight").type == GgufType::q4_1);
}

TEST_CASE("the real model, cut short: one clear line") {
  const std::size_t whole = std::filesystem::file_size(smollm2_path);
  std::string head(2'000'000, '\0');  // its metadata end before
  std::ifstream(smollm2_path, std::ios::binary).read(head.data(), static_cast<std::streamsize>(head.size()));
  for (const std::size_t size : {std::size_t{1000}, std::size_t{1'000'000}, std::size_t{1'700'000}, whole - 1}) {
    const TemporaryFile temporary(std::string_view(head).substr(0, std::min(size, head.size())));
    std::filesystem::resize_file(temporary.path(), size);  // grows as a hole, which takes no space
    const auto file = GgufFile::open(temporary.path());
    CAPTURE(size);
    REQUIRE_FALSE(file);
    const std::string& message = file.error().message;
    CHECK(message.starts_with(temporary.path() + ": "));
    CHECK(message.find('\n') == std::string::npos);
    if (size == whole - 1) CHECK(message.find("tensor \"output_norm.weight\": 2304 bytes") != std::string::npos);
  }
}

}  // namespace
}  // namespace millrace
