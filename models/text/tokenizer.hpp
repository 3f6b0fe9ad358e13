#pragma once
// Byte-pair encoding: text <-> token ids. Control tokens are made only of the chat template's own text; what users,
// tools and the policy wrote never becomes one.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/expected.hpp"
#include "models/text/jinja/template.hpp"
#include "models/text/marked_text.hpp"
#include "models/text/tokens.hpp"

namespace millrace {

// How the tokens of a vocabulary are written.
enum class Spelling {
  bytes,      // GPT-2: one printable character a byte
  characters  // SentencePiece: text, with U+2581 for a space; a character without a token is written in <0xNN> tokens
};

// Whether a space is put before the text that is encoded (SentencePiece), and taken away again where it is decoded.
enum class LeadingSpace {
  none,
  at_start,  // of the text, unless it begins with one
  at_parts,  // of every part between two added tokens, unless it begins with one
  always     // the same, also where it begins with one
};

struct Vocabulary {
  std::vector<std::string> tokens;  // in the vocabulary's spelling, those of added tokens as text; empty: no such token
  std::vector<std::string> merges;  // "left right", best first
  std::vector<TokenId> control;     // added tokens that only a template may write
  std::vector<TokenId> added;       // added tokens that any text may contain: <think>, for one
  std::vector<TokenId> eats_space_before, eats_space_after;  // added tokens that swallow white space beside them
  Spelling spelling = Spelling::bytes;
  LeadingSpace leading_space = LeadingSpace::none;
  bool compose = false;       // text is brought into NFC first
  bool whole_pieces = false;  // a piece that is a token stays one, whatever the merges say (Llama 3)
  std::string pre_tokenizer;  // a name that PreTokenizer knows; empty: `patterns` are its patterns
  std::vector<std::string> patterns;
  TokenId bos = -1;            // -1: none; encode never adds it
  TokenId eos = -1;            // ends a turn
  std::vector<TokenId> stops;  // others that end one as well
  std::string chat_template;   // Jinja source, as the file carries it; empty: none
};

class Tokenizer {
 public:
  // Errors: unknown pre-tokenizer, a merge or added token that is not in the vocabulary, a chat template that uses what
  // is not supported.
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
  Tokens encode_marked(const MarkedText& text) const;   // ... where all of the spelling is the template's
  std::string decode(const Tokens& tokens) const;       // control tokens left out; invalid UTF-8 becomes U+FFFD
  std::string_view bytes_of(TokenId token) const;       // raw bytes; empty for control tokens and unknown ids
  std::string spelling_of(TokenId token) const;         // as a template writes it: control tokens, too
  bool drops_leading_space() const;                     // decode drops one space at the beginning
  bool is_control(TokenId token) const;
  bool ends_turn(TokenId token) const;  // eos, or another that the model's files name
  TokenId eos() const;
  TokenId bos() const;
  std::size_t size() const;                      // number of tokens
  const jinja::Template* chat_template() const;  // null: the model has none
  const Vocabulary& vocabulary() const;          // what it was made of

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace
