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
  // "smollm", or "bytes": no cuts at all.
  static expected<PreTokenizer> make(const std::string& name);

  std::vector<std::string_view> split(std::string_view text) const;

 private:
  struct FreeCode {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::unique_ptr<pcre2_code, FreeCode> pattern_;  // none: no cuts
};

}  // namespace millrace
