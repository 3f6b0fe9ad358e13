#pragma once
// Turns a stream of tokens into a stream of text without ever splitting a character: bytes of an unfinished one wait.
#include <string>

#include "models/text/tokenizer.hpp"

namespace millrace {

class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  std::string push(TokenId token);  // the text that has become complete, maybe empty
  std::string finish();             // what still waits; an unfinished character becomes one U+FFFD

 private:
  const Tokenizer* tokenizer_;
  std::string waiting_;
  bool at_start_ = true;  // nothing has come yet
};

}  // namespace millrace
