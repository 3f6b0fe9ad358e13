#include <doctest/doctest.h>

#include "tests/text/gguf_bytes.hpp"
#include "tests/text/smollm2.hpp"

namespace millrace {
namespace {

// The keys of a vocabulary of four tokens; each can be left out or changed.
struct Keys {
  std::string model = "gpt2";
  std::string pre = "smollm";
  std::vector<std::string> tokens{"a", "b", "ab", "<|im_end|>"};
  std::vector<std::int32_t> types{1, 1, 1, 3};
  std::uint32_t eos = 3;
  std::string chat_template = "<|im_start|>";
};

expected<Vocabulary> read(const Keys& keys) {
  GgufBytes bytes(0, 7);
  bytes.key("tokenizer.ggml.model", type_text).text(keys.model);
  bytes.key("tokenizer.ggml.pre", type_text).text(keys.pre);
  bytes.texts("tokenizer.ggml.tokens", keys.tokens);
  bytes.texts("tokenizer.ggml.merges", {"a b"});
  bytes.integers("tokenizer.ggml.token_type", keys.types);
  bytes.key("tokenizer.ggml.eos_token_id", type_u32).number(keys.eos);
  bytes.key("tokenizer.chat_template", type_text).text(keys.chat_template);
  const TemporaryFile file(bytes.bytes());
  return read_vocabulary(GgufFile::open(file.path()).value());
}

bool refused(const Keys& keys, const std::string& error) {
  const auto vocabulary = read(keys);
  if (vocabulary) return false;
  INFO(vocabulary.error().message);
  CHECK(vocabulary.error().message == error);
  return true;
}

TEST_CASE("a vocabulary comes out as it went in") {
  const auto vocabulary = read({});
  REQUIRE_MESSAGE(vocabulary, vocabulary.error().message);
  CHECK(vocabulary->tokens == std::vector<std::string>{"a", "b", "ab", "<|im_end|>"});
  CHECK(vocabulary->merges == std::vector<std::string>{"a b"});
  CHECK(vocabulary->control == Tokens{3});
  CHECK(vocabulary->pre_tokenizer == "smollm");
  CHECK(vocabulary->eos == 3);
  CHECK(vocabulary->bos == -1);
  CHECK(vocabulary->chat_template == "<|im_start|>");
}

TEST_CASE("what is unknown or does not fit together is refused by the name of its key") {
  CHECK(refused({.model = "llama"}, "tokenizer.ggml.model: \"llama\" is not \"gpt2\" (byte-level BPE)"));
  CHECK(refused({.types = {1, 1, 3}}, "tokenizer.ggml.token_type: 3 types for 4 tokens"));
  CHECK(refused({.types = {1, 6, 1, 3}},
                "tokenizer.ggml.token_type: token 1 is of type 6, only 1 (normal), 3 (control), 4 "
                "(user defined) and 5 (unused) are known"));
  CHECK(refused({.eos = 4}, "tokenizer.ggml.eos_token_id: 4 is none of the 4 tokens"));
}

TEST_CASE("tokens that any text may contain, and such that are not in use") {
  const auto vocabulary = read({.pre = "qwen2", .types = {1, 5, 4, 3}});
  REQUIRE_MESSAGE(vocabulary, vocabulary.error().message);
  CHECK(vocabulary->added == Tokens{2});
  CHECK(vocabulary->tokens[1].empty());
  CHECK(vocabulary->compose);
}

TEST_CASE("a file without a tokenizer is refused") {
  const TemporaryFile file(GgufBytes(0, 0).bytes());
  CHECK(read_vocabulary(GgufFile::open(file.path()).value()).error().message ==
        "tokenizer.ggml.model is missing: it should be a text");
}

// Fault B29: an array of 1-byte numbers that a reader takes for 4-byte ones is read four times too far.
TEST_CASE("token types are read in the width the file declares") {
  GgufBytes bytes(0, 6);
  bytes.key("tokenizer.ggml.model", type_text).text("gpt2");
  bytes.key("tokenizer.ggml.pre", type_text).text("smollm");
  bytes.texts("tokenizer.ggml.tokens", {"a", "<|im_end|>"});
  bytes.texts("tokenizer.ggml.merges", {});
  bytes.key("tokenizer.ggml.eos_token_id", type_u32).number(1);
  bytes.array("tokenizer.ggml.token_type", type_u8, 2).number<std::uint8_t>(1).number<std::uint8_t>(3);
  const TemporaryFile file(bytes.bytes());
  CHECK(read_vocabulary(GgufFile::open(file.path()).value())->control == Tokens{1});
}

TEST_CASE("the real model's vocabulary") {
  const auto vocabulary = read_vocabulary(smollm2_file());
  REQUIRE_MESSAGE(vocabulary, vocabulary.error().message);
  CHECK(vocabulary->tokens.size() == 49152);
  CHECK(vocabulary->merges.size() == 48900);
  CHECK(vocabulary->control.size() == 17);
  CHECK(vocabulary->bos == 1);
  CHECK(vocabulary->eos == 2);
}

}  // namespace
}  // namespace millrace
