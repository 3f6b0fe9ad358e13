#include "models/text/pre_tokenizer.hpp"

#include <cstddef>
#include <stdexcept>

#include "models/text/utf8.hpp"

namespace millrace {
namespace {

// llama.cpp cuts for `smollm` twice: each \p{N} is a piece, and what lies between is cut as GPT-2 does it. This is both
// in one: white space before a digit stays together, before anything else its last character goes with what follows.
std::string smollm_pattern() {
  const std::string space = R"(\p{Z}\t-\r\x{85})";  // as Unicode defines it; PCRE2's \s counts U+180E, too
  const std::string digit = R"(\p{N})";
  const std::string ending = "'(?:[sdmt]|ll|ve|re)";
  const std::string word = R"( ?\p{L}+)";
  const std::string marks = R"( ?[^\p{L}\p{N})" + space + "]+";
  const std::string spaces_but_last = "[" + space + R"(]+(?![^\p{N})" + space + "])";
  const std::string spaces = "[" + space + "]+";
  return digit + "|" + ending + "|" + word + "|" + marks + "|" + spaces_but_last + "|" + spaces;
}

pcre2_code* compile(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &offset, nullptr);
  if (!code) throw std::logic_error("pre-tokenizer pattern, at " + std::to_string(offset));
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without JIT it matches all the same, only slower
  return code;
}

}  // namespace

expected<PreTokenizer> PreTokenizer::make(const std::string& name) {
  PreTokenizer made;
  if (name == "smollm") {
    made.pattern_.reset(compile(smollm_pattern()));
  } else if (name != "bytes") {
    return fail("unknown pre-tokenizer " + in_quotes(name) + ": known are \"smollm\" and \"bytes\"");
  }
  return made;
}

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  if (text.empty()) return pieces;
  if (!pattern_) return {text};
  struct FreeMatch {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  for (std::size_t position = 0; position < text.size();) {
    const int found = pcre2_match(pattern_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), position, 0,
                                  match.get(), nullptr);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) throw std::runtime_error("PCRE2 error " + std::to_string(found));
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
    const std::size_t begin = found < 0 ? text.size() : range[0];
    const std::size_t end = found < 0 ? text.size() : range[1];
    // The pattern covers all valid characters: what it leaves out is bytes that are no UTF-8.
    if (begin > position) pieces.push_back(text.substr(position, begin - position));
    if (end > begin) pieces.push_back(text.substr(begin, end - begin));
    position = end;
  }
  return pieces;
}

}  // namespace millrace
