#include "models/text/detokenizer.hpp"

#include <utility>

#include "models/text/utf8.hpp"

namespace millrace {

std::string Detokenizer::push(TokenId token) {
  std::string text;
  waiting_ += tokenizer_->bytes_of(token);
  waiting_.erase(0, append_characters(waiting_, text));
  return text;
}

std::string Detokenizer::finish() { return to_valid_utf8(std::exchange(waiting_, {})); }

}  // namespace millrace
