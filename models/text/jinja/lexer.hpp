#pragma once
// Cuts a template into text and the tokens of its tags. White space goes as transformers sets Jinja up: trim_blocks
// (the line break after a block tag goes) and lstrip_blocks (so does the indentation before one).
#include <string>
#include <string_view>
#include <vector>

namespace millrace::jinja {

enum class Kind { text, output_begin, output_end, block_begin, block_end, name, integer, real, string, symbol, end };

struct Token {
  Kind kind = Kind::end;
  std::string text;  // of a string: what its escapes stand for
  int line = 0;
};

// Throws Failure. The last token is of kind `end`.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace millrace::jinja
