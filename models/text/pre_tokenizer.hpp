#pragma once
// Cuts text into the pieces that byte-pair merges never cross: words, digits, punctuation, white space.
// The pieces put together are the text again, whatever its bytes are.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "config/expected.hpp"

namespace millrace {

class PreTokenizer {
 public:
  // By llama.cpp's names: "smollm", "gpt-2", "llama-bpe" (Llama 3), "qwen2" (Qwen 2 and 3), or "bytes": no cuts at all.
  static expected<PreTokenizer> make(const std::string& name);

  // Patterns as tokenizer.json has them (Oniguruma's syntax), each applied to the pieces the one before left: a match
  // is a piece, and so is what lies between two. Errors: syntax that means another thing here, or nothing.
  static expected<PreTokenizer> make(const std::vector<std::string>& patterns);

  std::vector<std::string_view> split(std::string_view text) const;

 private:
  struct FreeCode {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::vector<std::unique_ptr<pcre2_code, FreeCode>> patterns_;  // none: no cuts
};

// The patterns behind a name; those given if there is none.
std::vector<std::string> patterns_of(const std::string& name, const std::vector<std::string>& given);

// What "ByteLevel" does in tokenizer.json if it is to use its own pattern.
extern const char* const gpt2_pattern;

}  // namespace millrace
