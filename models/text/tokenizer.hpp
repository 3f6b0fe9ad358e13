#pragma once
// Byte-level BPE: text <-> token ids, exact in both directions. Control tokens are made only by encode_template, which
// is called for the chat template's own text; what users, tools and the policy wrote never becomes one.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/expected.hpp"
#include "models/text/tokens.hpp"

namespace millrace {

struct Vocabulary {
  std::vector<std::string> tokens;  // GPT-2's byte-to-unicode spelling
  std::vector<std::string> merges;  // "left right", best first
  std::vector<TokenId> control;     // ids of control tokens
  std::string pre_tokenizer;        // "smollm" | "bytes"
  TokenId bos = -1;                 // -1: none; encode never adds it
  TokenId eos = -1;                 // ends a turn
  std::string chat_template;        // Jinja source, as the file carries it
};

class Tokenizer {
 public:
  // Errors: unknown pre-tokenizer, a merge or control id that is not in the vocabulary.
  static expected<Tokenizer> make(Vocabulary vocabulary);
  // One token a byte, then <|im_start|>, <|im_end|> (eos) and <|endoftext|>: the tokenizer of random models.
  static Tokenizer bytes();

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // A byte that the vocabulary has no token for is left out, as in llama.cpp (SmolLM2 lacks 21, hardly ever written).
  // Text need not be valid UTF-8. All of these may be called from several threads at once.
  Tokens encode(std::string_view text) const;           // control tokens' spellings are plain text
  Tokens encode_template(std::string_view text) const;  // control tokens' spellings become control tokens
  std::string decode(const Tokens& tokens) const;       // control tokens left out; invalid UTF-8 becomes U+FFFD
  std::string_view bytes_of(TokenId token) const;       // raw bytes; empty for control tokens and unknown ids
  bool is_control(TokenId token) const;
  TokenId eos() const;
  TokenId bos() const;
  std::size_t size() const;  // number of tokens
  const std::string& chat_template() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace
