#include "models/text/pre_tokenizer.hpp"

#include <cstddef>
#include <map>
#include <stdexcept>

#include "models/text/utf8.hpp"

namespace millrace {

const char* const gpt2_pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

// White space as Unicode defines it, inside of brackets; PCRE2's \s counts U+180E, too.
constexpr std::string_view space = R"(\p{Z}\t-\r\x{85})";

// llama.cpp cuts for `smollm` twice: each \p{N} is a piece, and what lies between is cut as GPT-2 does it. This is both
// in one: white space before a digit stays together, before anything else its last character goes with what follows.
constexpr const char* smollm_pattern =
    R"(\p{N}|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?[^\p{L}\p{N}\s]+|\s+(?=\p{N}|\z)|\s+(?!\S)|\s+)";

// The endings of English words, letters, digits in groups, marks, line breaks, spaces.
std::string llama_pattern(const std::string& digits) {
  return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" + digits +
         R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

// By the names that GGUF files use.
const std::map<std::string, std::vector<std::string>>& known_patterns() {
  static const std::map<std::string, std::vector<std::string>> known = {{"smollm", {smollm_pattern}},
                                                                        {"gpt-2", {gpt2_pattern}},
                                                                        {"llama-bpe", {llama_pattern(R"(\p{N}{1,3})")}},
                                                                        {"qwen2", {llama_pattern(R"(\p{N})")}},
                                                                        {"bytes", {}}};
  return known;
}

// From Oniguruma's syntax to PCRE2's: they agree on what passes here, but for white space, which is spelled out.
expected<std::string> translated(const std::string& pattern) {
  const auto refuse = [&](const std::string& what) {
    return fail("the pattern " + in_quotes(pattern) + ": " + what + " is not supported");
  };
  for (const char* group : {"(?m", "(?x", "(?~"}) {
    if (pattern.find(group) != std::string::npos) return refuse(group);
  }
  std::string out;
  bool in_brackets = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\') {
      if (in_brackets && c == '[') return refuse("\"[\" inside of brackets");
      if (in_brackets && pattern.compare(i, 2, "&&") == 0) return refuse("\"&&\" inside of brackets");
      if (c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      out += c;
      continue;
    }
    if (++i == pattern.size()) return refuse("a backslash at the end");
    const char escaped = pattern[i];
    if (escaped == 's') {
      out += in_brackets ? std::string(space) : '[' + std::string(space) + ']';
    } else if (escaped == 'S') {
      if (in_brackets) return refuse("\\S inside of brackets");
      out += "[^" + std::string(space) + ']';
    } else if (escaped == 'p' || escaped == 'P') {
      const std::size_t end = pattern.find('}', i);
      const std::string category = end == std::string::npos ? "" : pattern.substr(i + 1, end - i);
      // Scripts mean other characters in PCRE2.
      const bool is_category =
          category.size() == 3 || (category.size() == 4 && category[2] >= 'a' && category[2] <= 'z');
      if (!is_category || category[0] != '{') return refuse("what is no general category after \\p");
      (out += '\\') += escaped + category;
      i = end;
    } else if (std::string_view("rntdDz").find(escaped) != std::string_view::npos ||
               std::string_view(R"(\.[](){}*+?|^$/-'"&#!,:;<=>@_`~%)").find(escaped) != std::string_view::npos) {
      (out += '\\') += escaped;
    } else {
      return refuse(std::string("\\") + escaped);
    }
  }
  return out;
}

}  // namespace

expected<PreTokenizer> PreTokenizer::make(const std::string& name) {
  const auto found = known_patterns().find(name);
  if (found != known_patterns().end()) return make(found->second);
  std::string names;
  for (const auto& entry : known_patterns()) names += (names.empty() ? "" : ", ") + entry.first;
  return fail("unknown pre-tokenizer " + in_quotes(name) + ": known are " + names);
}

expected<PreTokenizer> PreTokenizer::make(const std::vector<std::string>& patterns) {
  PreTokenizer made;
  for (const std::string& given : patterns) {
    const expected<std::string> pattern = translated(given);
    if (!pattern) return tl::unexpected(pattern.error());
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern->data()), pattern->size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &offset, nullptr);
    if (!code) return fail("the pattern " + in_quotes(given) + " is wrong near character " + std::to_string(offset));
    made.patterns_.emplace_back(code);
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without JIT it matches all the same, only slower
  }
  return made;
}

std::vector<std::string> patterns_of(const std::string& name, const std::vector<std::string>& given) {
  const auto found = known_patterns().find(name);
  return found == known_patterns().end() ? given : found->second;
}

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  if (!text.empty()) pieces.push_back(text);
  if (patterns_.empty()) return pieces;
  struct FreeMatch {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  for (const auto& pattern : patterns_) {
    std::vector<std::string_view> parts;
    for (const std::string_view piece : pieces) {
      for (std::size_t position = 0, search = 0; position < piece.size();) {
        const int found = pcre2_match(pattern.get(), reinterpret_cast<PCRE2_SPTR>(piece.data()), piece.size(), search,
                                      0, match.get(), nullptr);
        if (found < 0 && found != PCRE2_ERROR_NOMATCH) throw std::runtime_error("PCRE2 error " + std::to_string(found));
        const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
        const std::size_t begin = found < 0 ? piece.size() : range[0];
        const std::size_t end = found < 0 ? piece.size() : range[1];
        search = end;
        if (begin == end && begin < piece.size()) {  // a match of nothing cuts nothing
          search = begin + character_at(piece, begin).size;
          continue;
        }
        // What lies between two matches is a piece, too: for one, bytes that are no UTF-8.
        if (begin > position) parts.push_back(piece.substr(position, begin - position));
        if (end > begin) parts.push_back(piece.substr(begin, end - begin));
        position = end;
      }
    }
    pieces = std::move(parts);
  }
  return pieces;
}

}  // namespace millrace
