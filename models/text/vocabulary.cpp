// The tokenizer inside a GGUF file: the keys tokenizer.* of llama.cpp's converter.
#include "models/text/gguf.hpp"
#include "models/text/utf8.hpp"

namespace millrace {
namespace {

constexpr std::int64_t normal_token = 1;
constexpr std::int64_t control_token = 3;

expected<TokenId> read_token_id(const GgufFile& file, const std::string& key, std::size_t tokens) {
  const auto id = file.integer(key);
  if (!id) return tl::unexpected(id.error());
  if (*id < 0 || static_cast<std::uint64_t>(*id) >= tokens) {
    return fail(key + ": " + std::to_string(*id) + " is none of the " + std::to_string(tokens) + " tokens");
  }
  return static_cast<TokenId>(*id);
}

expected<std::vector<TokenId>> read_control_tokens(const GgufFile& file, std::size_t tokens) {
  const std::string key = "tokenizer.ggml.token_type";
  const auto types = file.integers(key);
  if (!types) return tl::unexpected(types.error());
  if (types->size() != tokens) {
    return fail(key + ": " + std::to_string(types->size()) + " types for " + std::to_string(tokens) + " tokens");
  }
  std::vector<TokenId> control;
  for (std::size_t token = 0; token < tokens; ++token) {
    const std::int64_t type = (*types)[token];
    if (type == control_token) {
      control.push_back(static_cast<TokenId>(token));
    } else if (type != normal_token) {
      return fail(key + ": token " + std::to_string(token) + " is of type " + std::to_string(type) +
                  ", only 1 (normal) and 3 (control) are known");
    }
  }
  return control;
}

}  // namespace

expected<Vocabulary> read_vocabulary(const GgufFile& file) {
  const auto model = file.text("tokenizer.ggml.model");
  if (!model) return tl::unexpected(model.error());
  if (*model != "gpt2") return fail("tokenizer.ggml.model: " + in_quotes(*model) + " is not \"gpt2\" (byte-level BPE)");

  auto pre_tokenizer = file.text("tokenizer.ggml.pre");
  if (!pre_tokenizer) return tl::unexpected(pre_tokenizer.error());
  auto tokens = file.texts("tokenizer.ggml.tokens");
  if (!tokens) return tl::unexpected(tokens.error());
  auto merges = file.texts("tokenizer.ggml.merges");
  if (!merges) return tl::unexpected(merges.error());
  auto control = read_control_tokens(file, tokens->size());
  if (!control) return tl::unexpected(control.error());
  const auto eos = read_token_id(file, "tokenizer.ggml.eos_token_id", tokens->size());
  if (!eos) return tl::unexpected(eos.error());

  Vocabulary vocabulary;
  vocabulary.eos = *eos;
  if (const std::string key = "tokenizer.ggml.bos_token_id"; file.has(key)) {
    const auto bos = read_token_id(file, key, tokens->size());
    if (!bos) return tl::unexpected(bos.error());
    vocabulary.bos = *bos;
  }
  if (const std::string key = "tokenizer.chat_template"; file.has(key)) {
    auto chat_template = file.text(key);
    if (!chat_template) return tl::unexpected(chat_template.error());
    if (chat_template->find("<|im_start|>") == std::string::npos) {
      return fail(key + ": only ChatML templates (with <|im_start|>) are known");
    }
    vocabulary.chat_template = std::move(*chat_template);
  }
  vocabulary.tokens = std::move(*tokens);
  vocabulary.merges = std::move(*merges);
  vocabulary.control = std::move(*control);
  vocabulary.pre_tokenizer = std::move(*pre_tokenizer);
  return vocabulary;
}

}  // namespace millrace
