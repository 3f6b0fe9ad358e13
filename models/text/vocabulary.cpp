// The tokenizer inside a GGUF file: the keys tokenizer.* of llama.cpp's converter.
#include "models/text/gguf.hpp"
#include "models/text/utf8.hpp"

namespace millrace {
namespace {

enum TokenType : std::int64_t { normal = 1, control = 3, user_defined = 4, unused = 5 };

expected<TokenId> read_token_id(const GgufFile& file, const std::string& key, std::size_t tokens) {
  const auto id = file.integer(key);
  if (!id) return tl::unexpected(id.error());
  if (*id < 0 || static_cast<std::uint64_t>(*id) >= tokens) {
    return fail(key + ": " + std::to_string(*id) + " is none of the " + std::to_string(tokens) + " tokens");
  }
  return static_cast<TokenId>(*id);
}

expected<void> read_token_types(const GgufFile& file, Vocabulary& vocabulary) {
  const std::string key = "tokenizer.ggml.token_type";
  const auto types = file.integers(key);
  if (!types) return tl::unexpected(types.error());
  const std::size_t tokens = vocabulary.tokens.size();
  if (types->size() != tokens) {
    return fail(key + ": " + std::to_string(types->size()) + " types for " + std::to_string(tokens) + " tokens");
  }
  for (std::size_t token = 0; token < tokens; ++token) {
    switch ((*types)[token]) {
      case normal: break;
      case control: vocabulary.control.push_back(static_cast<TokenId>(token)); break;
      case user_defined: vocabulary.added.push_back(static_cast<TokenId>(token)); break;
      case unused: vocabulary.tokens[token].clear(); break;
      default:
        return fail(key + ": token " + std::to_string(token) + " is of type " + std::to_string((*types)[token]) +
                    ", only 1 (normal), 3 (control), 4 (user defined) and 5 (unused) are known");
    }
  }
  return {};
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
  const auto eos = read_token_id(file, "tokenizer.ggml.eos_token_id", tokens->size());
  if (!eos) return tl::unexpected(eos.error());

  Vocabulary vocabulary;
  vocabulary.tokens = std::move(*tokens);
  if (auto types = read_token_types(file, vocabulary); !types) return tl::unexpected(types.error());
  vocabulary.eos = *eos;
  if (const std::string key = "tokenizer.ggml.bos_token_id"; file.has(key)) {
    const auto bos = read_token_id(file, key, vocabulary.tokens.size());
    if (!bos) return tl::unexpected(bos.error());
    vocabulary.bos = *bos;
  }
  if (const std::string key = "tokenizer.chat_template"; file.has(key)) {
    auto chat_template = file.text(key);
    if (!chat_template) return tl::unexpected(chat_template.error());
    vocabulary.chat_template = std::move(*chat_template);
  }
  vocabulary.merges = std::move(*merges);
  vocabulary.compose = *pre_tokenizer == "qwen2";  // the only one of those known that asks for NFC
  vocabulary.whole_pieces = *pre_tokenizer == "llama-bpe";
  vocabulary.pre_tokenizer = std::move(*pre_tokenizer);
  return vocabulary;
}

}  // namespace millrace
