#include "models/text/safetensors.hpp"

#include <cstring>
#include <fstream>
#include <random>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "models/text/json_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/text/gguf_bytes.hpp"
#include "tests/text/refusal_time.hpp"

namespace millrace {
namespace {

std::string with_length(std::uint64_t length, const std::string& rest) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + rest;
}
std::string file_of(const std::string& header, const std::string& data) {
  return with_length(header.size(), header + data);
}

// What is wrong with a file of these bytes, without its path; in the time it may take (fault B29).
std::string error_of(const std::string& bytes) {
  const TemporaryFile file(bytes);
  const double start = processor_seconds();
  const auto opened = SafetensorsFile::open(file.path());
  CHECK(processor_seconds() - start < refusal_seconds);
  if (opened) return "";
  CHECK(opened.error().message.starts_with(file.path() + ": "));
  return opened.error().message.substr(file.path().size() + 2);
}

std::string tensor(const std::string& fields) { return R"({"w": {)" + fields + "}}"; }

TEST_CASE("tensors come out as they went in") {
  const TemporaryDirectory folder;
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {7};
  REQUIRE(write_safetensors(folder.path() + "/x", {{"a", {2, 3}, a}, {"b", {1}, b}}));
  const auto file = SafetensorsFile::open(folder.path() + "/x");
  REQUIRE_MESSAGE(file, file.error().message);
  const StoredTensor& stored = file->tensors().at("a");
  CHECK(stored.shape == std::vector<std::int64_t>{2, 3});
  CHECK(stored.type_name == "F32");
  std::vector<float> read(6);
  widen(stored, read);
  file->forget(stored);  // comes back when it is read again
  widen(stored, read);
  CHECK(read == a);
  CHECK(write_safetensors("/nowhere/x", {}).error().message == "/nowhere/x: cannot be written, is the disk full?");
}

TEST_CASE("16-bit floats become the same numbers") {
  const std::string data("\x00\x3C\x00\xC0\x01\x00\x80\x3F\x00\xC0\x01\x00", 12);
  const std::string header = R"({"h": {"dtype": "F16", "shape": [3], "data_offsets": [0, 6]},
                                 "b": {"dtype": "BF16", "shape": [3], "data_offsets": [6, 12]}})";
  const TemporaryFile bytes(file_of(header, data));
  const auto file = SafetensorsFile::open(bytes.path());
  REQUIRE_MESSAGE(file, file.error().message);
  std::vector<float> values(3);
  widen(file->tensors().at("h"), values);
  CHECK(values == std::vector<float>{1.0f, -2.0f, 0x1p-24f});
  widen(file->tensors().at("b"), values);
  CHECK(values == std::vector<float>{1.0f, -2.0f, 0x1p-133f});
}

// Fault B29.
TEST_CASE("a malformed file is refused by the name of the tensor or field") {
  const std::string good = tensor(R"("dtype": "F32", "shape": [1], "data_offsets": [0, 4])"), data(4, '\0');
  CHECK(error_of(file_of(good, data)) == "");
  CHECK(error_of("abc").starts_with("header length: needs 8 bytes"));
  CHECK(error_of(with_length(good.size() + 13, good + data)).starts_with("header length: needs "));
  CHECK(error_of(with_length(1ull << 63, good)) == "header length: 9223372036854775808 is beyond 100 MB");
  CHECK(error_of(with_length(0, good)) == "header length: is 0");
  CHECK(error_of(file_of("[1]", data)) == "header: an object is expected, not a JSON array");
  CHECK(error_of(file_of("{\"w\xFF\": 1}", data)) == "header: is no JSON in UTF-8");
  CHECK(error_of(file_of("{", data)) == "header: is no JSON in UTF-8");
  CHECK(error_of(file_of(std::string(100'000, '['), data)) == "header: is no JSON in UTF-8");
  CHECK(error_of(file_of(good, data + "x")) == "data: 1 bytes at the end belong to no tensor");
  CHECK(error_of(file_of(good, std::string(3, '\0'))) ==
        "tensor \"w\": data_offsets: 4 lies beyond the 3 bytes of data in the file");

  const auto refused = [&](const std::string& fields) {
    const std::string error = error_of(file_of(tensor(fields), data));
    CHECK(error.starts_with("tensor \"w\": "));
    return error.substr(std::min<std::size_t>(error.size(), 12));
  };
  CHECK(refused(R"("dtype": "F32", "shape": [1], "data_offsets": [4, 0])") ==
        "data_offsets: they are in reverse order");
  CHECK(refused(R"("dtype": "F32", "shape": [1], "data_offsets": [0, 5])") ==
        "data_offsets: 5 lies beyond the 4 bytes of data in the file");
  CHECK(refused(R"("dtype": "F32", "shape": [1], "data_offsets": [0])") ==
        "data_offsets: two whole numbers from 0 on are expected");
  CHECK(refused(R"("dtype": "F32", "shape": [1], "data_offsets": [-4, 0])") ==
        "data_offsets: two whole numbers from 0 on are expected");
  CHECK(refused(R"("dtype": "F32", "shape": [1000, 1000], "data_offsets": [0, 4])") ==
        "data_offsets: they enclose 4 bytes, dtype and shape ask for 4000000");
  CHECK(refused(R"("dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 4])") ==
        "shape: its size in bytes is beyond 2^64");
  CHECK(refused(R"("dtype": "F32", "shape": [1.5], "data_offsets": [0, 4])") ==
        "shape: whole numbers from 0 on are expected");
  CHECK(refused(R"("dtype": "Q4", "shape": [1], "data_offsets": [0, 18446744073709551615])") ==
        "dtype: \"Q4\" is unknown");
  CHECK(refused(R"("dtype": "F32", "shape": [1], "data_offsets": [0, 18446744073709551615])")
            .starts_with("data_offsets: 1844"));
  CHECK(refused(R"("shape": [1], "data_offsets": [0, 4])") == "dtype: a text is expected");
  CHECK(error_of(file_of(R"({"w": 5})", data)) == "tensor \"w\": dtype: a text is expected");

  const auto two = [&](const char* first, const char* second) {
    const auto entry = [](const char* offsets) {
      return R"({"dtype": "F32", "shape": [1], "data_offsets": )" + std::string(offsets) + "}";
    };
    return error_of(file_of("{\"a\": " + entry(first) + ", \"b\": " + entry(second) + "}", std::string(12, '\0')));
  };
  CHECK(two("[0, 4]", "[0, 4]") == "tensor \"b\": data_offsets: its bytes belong to another one, too");
  CHECK(two("[0, 4]", "[2, 6]") == "tensor \"b\": data_offsets: its bytes belong to another one, too");
  CHECK(two("[0, 4]", "[8, 12]") == "tensor \"b\": data_offsets: bytes before it belong to no tensor");
  CHECK(two("[4, 8]", "[8, 12]") == "tensor \"a\": data_offsets: bytes before it belong to no tensor");
}

TEST_CASE("whatever bytes are changed, there is an error or good tensors") {
  std::mt19937 random(3);
  const std::string good =
      file_of(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
              R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[16,24]}})",
              std::string(24, '\x3F'));
  int opened = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      bytes[random() % bytes.size()] =
          random() % 2 ? static_cast<char>(random()) : "0123456789[]{},:\"-.eE"[random() % 21];
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    if (bytes.empty()) continue;
    const TemporaryFile temporary(bytes);
    const auto file = SafetensorsFile::open(temporary.path());
    if (!file) continue;
    ++opened;
    for (const auto& [name, stored] : file->tensors()) {
      if (stored.type == FloatType::other) continue;
      std::vector<float> values(stored.data.size() / (stored.type == FloatType::f32 ? 4 : 2));
      widen(stored, values);
    }
  }
  CHECK(opened > 100);
}

TEST_CASE("a folder of several files") {
  const TemporaryDirectory folder;
  const std::vector<float> a = {1}, b = {2};
  REQUIRE(write_safetensors(folder.path() + "/1.safetensors", {{"a", {1}, a}}));
  REQUIRE(write_safetensors(folder.path() + "/2.safetensors", {{"b", {1}, b}}));
  const auto error_of_index = [&](const std::string& index) {
    std::ofstream(folder.path() + "/model.safetensors.index.json") << index;
    const auto opened = SafetensorsFolder::open(folder.path());
    if (!opened) return opened.error().message.substr(folder.path().size() + 1);
    CHECK(opened->names() == std::vector<std::string>{"a", "b"});
    CHECK(opened->find("b")->data.size() == 4);
    CHECK(opened->find("c") == nullptr);
    return std::string();
  };
  CHECK(error_of_index(R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})") == "");
  CHECK(error_of_index("{}") == "model.safetensors.index.json: weight_map: an object is expected");
  CHECK(error_of_index("[") == "model.safetensors.index.json: is no JSON");
  CHECK(error_of_index(R"({"weight_map": {"a": "../1.safetensors"}})") ==
        "model.safetensors.index.json: weight_map: \"a\": the name of a file beside it is expected");
  CHECK(error_of_index(R"({"weight_map": {"a": 5}})") ==
        "model.safetensors.index.json: weight_map: \"a\": the name of a file beside it is expected");
  CHECK(error_of_index(R"({"weight_map": {"a": "2.safetensors"}})") == "2.safetensors: tensor \"a\" is missing");
  CHECK(error_of_index(R"({"weight_map": {"a": "3.safetensors"}})") == "3.safetensors: No such file or directory");
  const std::vector<float> both = {3};
  REQUIRE(write_safetensors(folder.path() + "/2.safetensors", {{"b", {1}, both}, {"c", {1}, both}}));
  CHECK(error_of_index(R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})") ==
        "2.safetensors: has tensors that weight_map does not name");
}

}  // namespace
}  // namespace millrace
