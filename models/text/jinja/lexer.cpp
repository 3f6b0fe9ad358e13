#include "models/text/jinja/lexer.hpp"

#include <algorithm>
#include <array>

#include "models/text/jinja/value.hpp"
#include "models/text/utf8.hpp"

namespace millrace::jinja {
namespace {

constexpr std::string_view spaces = " \t\n\r\f\v";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
char lower_case(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
bool is_space(char c) { return spaces.find(c) != std::string_view::npos; }

// Line breaks as \n; one at the very end goes.
std::string normalised(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r')
      text += source[i];
    else if (i + 1 == source.size() || source[i + 1] != '\n')
      text += '\n';
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalised(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      read_text();
      if (at_ == source_.size()) break;
      const char kind = source_[at_ + 1];
      at_ += 2;
      const bool signed_begin = at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+');
      if (signed_begin) ++at_;
      if (kind == '#')
        skip_comment();
      else
        read_tag(kind == '{');
    }
    add(Kind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Failure{"line " + std::to_string(line_) + ": " + what};
  }
  bool next_is(std::string_view text) const { return std::string_view(source_).substr(at_).starts_with(text); }
  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void advance(std::size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + count), '\n'));
    at_ += count;
  }
  void skip_spaces() {
    while (at_ < source_.size() && is_space(source_[at_])) advance(1);
  }

  // What stands before the next tag.
  void read_text() {
    std::size_t end = at_;
    while (true) {
      end = source_.find('{', end);
      if (end == std::string::npos) end = source_.size();
      if (end + 1 >= source_.size()) end = source_.size();
      if (end == source_.size() || std::string_view("{%#").find(source_[end + 1]) != std::string_view::npos) break;
      ++end;
    }
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (end < source_.size()) {
      const char kind = source_[end + 1];
      const char sign = end + 2 < source_.size() ? source_[end + 2] : ' ';
      if (sign == '-') {
        text = text.substr(0, text.find_last_not_of(spaces) + 1);
      } else if (kind != '{' && sign != '+') {
        const std::size_t line = text.rfind('\n') + 1;  // 0 if there is none
        const bool is_indent = std::ranges::all_of(text.substr(line), is_space);
        if (is_indent && (line > 0 || at_line_start_)) text = text.substr(0, line);
      }
    }
    if (!text.empty()) add(Kind::text, std::string(text));
    advance(end - at_);
  }

  // Ends a tag: what follows it is eaten as its sign says. `closing` is "%}", "#}" or "}}".
  bool try_end(std::string_view closing) {
    const std::size_t begin = at_;
    const bool is_output = closing == "}}";
    if (next_is("-" + std::string(closing))) {
      advance(3);
      skip_spaces();
    } else if (!is_output && next_is("+" + std::string(closing))) {
      advance(3);
    } else if (next_is(closing)) {
      advance(2);
      if (!is_output && at_ < source_.size() && source_[at_] == '\n') advance(1);
    } else {
      return false;
    }
    at_line_start_ = at_ > begin && source_[at_ - 1] == '\n';
    return true;
  }

  void skip_comment() {
    while (!try_end("#}")) {
      if (at_ >= source_.size()) refuse("a comment has no end");
      advance(1);
    }
  }

  void read_tag(bool is_output) {
    add(is_output ? Kind::output_begin : Kind::block_begin, "");
    int open = 0;  // brackets: inside them }} is no end
    while (true) {
      skip_spaces();
      if (at_ >= source_.size()) refuse("a tag has no end");
      if (open == 0 && try_end(is_output ? "}}" : "%}")) break;
      const char c = source_[at_];
      if (is_letter(c))
        read_name();
      else if (is_digit(c))
        read_number();
      else if (c == '\'' || c == '"')
        read_string(c);
      else
        read_symbol(open);
    }
    add(is_output ? Kind::output_end : Kind::block_end, "");
  }

  void read_name() {
    std::size_t end = at_;
    while (end < source_.size() && (is_letter(source_[end]) || is_digit(source_[end]))) ++end;
    add(Kind::name, source_.substr(at_, end - at_));
    at_ = end;
  }

  void read_number() {
    std::size_t end = at_;
    const auto digits = [&] {
      while (end < source_.size() && is_digit(source_[end])) ++end;
    };
    digits();
    Kind kind = Kind::integer;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      kind = Kind::real;
      ++end;
      digits();
    }
    if (end < source_.size() && is_letter(source_[end])) refuse("numbers are digits, with a point or not");
    add(kind, source_.substr(at_, end - at_));
    at_ = end;
  }

  void read_symbol(int& open) {
    static constexpr std::array symbols = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
                                           ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ":", ".", "|"};
    const auto* const found = std::ranges::find_if(symbols, [&](std::string_view symbol) { return next_is(symbol); });
    if (found == symbols.end()) refuse("the character " + in_quotes(source_.substr(at_, 1)) + " has no meaning here");
    const std::string symbol = *found;
    if (symbol == "(" || symbol == "[" || symbol == "{") ++open;
    if (symbol == ")" || symbol == "]" || symbol == "}") --open;
    if (open < 0) refuse("\"" + symbol + "\" closes nothing");
    add(Kind::symbol, symbol);
    at_ += symbol.size();
  }

  void read_string(char quote) {
    const int first_line = line_;
    std::string text;
    advance(1);
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] == '\\') {
        read_escape(text);
      } else {
        text += source_[at_];
        advance(1);
      }
    }
    if (at_ >= source_.size()) refuse("the string that begins in line " + std::to_string(first_line) + " has no end");
    advance(1);
    add(Kind::string, text);
  }

  // As Python's unicode-escape; an unknown one stays as it is.
  void read_escape(std::string& text) {
    advance(1);
    if (at_ >= source_.size()) return;
    const char c = source_[at_];
    static constexpr std::string_view letters = "ntrbfav\\'\"", meanings = "\n\t\r\b\f\a\v\\'\"";
    const std::size_t known = letters.find(c);
    if (known != std::string_view::npos) {
      text += meanings[known];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      append_character(read_digits(c == 'x' ? 2 : c == 'u' ? 4 : 8), text);
      return;
    } else if (is_digit(c)) {
      refuse("octal escapes are not supported");
    } else if (c != '\n') {
      text += '\\';
      return;  // the character itself is read next
    }
    advance(1);
  }

  char32_t read_digits(std::size_t count) {
    advance(1);
    char32_t code = 0;
    for (std::size_t i = 0; i < count; ++i, advance(1)) {
      const std::size_t digit =
          at_ < source_.size() ? std::string_view("0123456789abcdef").find(lower_case(source_[at_])) : 16;
      if (digit >= 16) refuse("an escape of " + std::to_string(count) + " hexadecimal digits is expected");
      code = code << 4 | static_cast<char32_t>(digit);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) refuse("an escape names no character");
    return code;
  }

  const std::string source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) { return Lexer(source).run(); }

}  // namespace millrace::jinja
