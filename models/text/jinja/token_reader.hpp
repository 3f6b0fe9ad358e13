#pragma once
// What every part of the parser does with the tokens of a template: look at the next one, take it, or refuse it.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "models/text/jinja/lexer.hpp"
#include "models/text/jinja/value.hpp"
#include "models/text/utf8.hpp"

namespace millrace::jinja {

class TokenReader {
 public:
  explicit TokenReader(std::string_view source) : tokens_(tokens_of(source)) {}

 protected:
  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token take() {
    Token token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool is_symbol(std::string_view symbol) const { return peek().kind == Kind::symbol && peek().text == symbol; }
  bool is_name(std::string_view name) const { return peek().kind == Kind::name && peek().text == name; }
  bool try_symbol(std::string_view symbol) {
    if (!is_symbol(symbol)) return false;
    take();
    return true;
  }
  bool try_name(std::string_view name) {
    if (!is_name(name)) return false;
    take();
    return true;
  }
  void expect_symbol(std::string_view symbol) {
    if (!try_symbol(symbol)) refuse('"' + std::string(symbol) + "\" is expected, not " + described(peek()));
  }
  void expect_name(std::string_view name) {
    if (!try_name(name)) refuse('"' + std::string(name) + "\" is expected, not " + described(peek()));
  }
  std::string take_name() {
    if (peek().kind != Kind::name) refuse("a name is expected, not " + described(peek()));
    return take().text;
  }
  void expect_end(Kind kind) {
    if (peek().kind != kind) refuse("the end of the tag is expected, not " + described(peek()));
    take();
  }
  static std::string described(const Token& token) {
    switch (token.kind) {
      case Kind::end: return "the end of the template";
      case Kind::output_end:
      case Kind::block_end: return "the end of the tag";
      default: return in_quotes(token.text);
    }
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Failure{"line " + std::to_string(peek().line) + ": " + what};
  }
  struct Nesting {
    explicit Nesting(TokenReader& owner) : reader(owner) {
      if (++reader.depth_ > deepest_nesting) reader.refuse("it is nested too deeply");
    }
    ~Nesting() { --reader.depth_; }
    TokenReader& reader;
  };

 private:
  static constexpr int deepest_nesting = 150;
  const std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace millrace::jinja
