#include "models/text/detokenizer.hpp"

#include <string_view>
#include <utility>

#include "models/text/utf8.hpp"

namespace millrace {

std::string Detokenizer::push(TokenId token) {
  std::string text;
  std::string_view bytes = tokenizer_->bytes_of(token);
  if (!bytes.empty() && std::exchange(at_start_, false) && bytes.front() == ' ' && tokenizer_->drops_leading_space()) {
    bytes.remove_prefix(1);
  }
  waiting_ += bytes;
  waiting_.erase(0, append_characters(waiting_, text));
  return text;
}

std::string Detokenizer::finish() { return to_valid_utf8(std::exchange(waiting_, {})); }

}  // namespace millrace
