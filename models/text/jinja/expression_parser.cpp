#include "models/text/jinja/expression_parser.hpp"

#include <array>
#include <charconv>

namespace millrace::jinja {

namespace {

ExpressionPtr binary(std::string symbol, ExpressionPtr left, ExpressionPtr right) {
  auto node = std::make_unique<Binary>();
  node->is_text = symbol == "+" && left->is_text;
  node->symbol = std::move(symbol);
  node->left = std::move(left);
  node->right = std::move(right);
  return node;
}

ExpressionPtr unary(std::string symbol, ExpressionPtr operand) {
  auto node = std::make_unique<Unary>();
  node->symbol = std::move(symbol);
  node->operand = std::move(operand);
  return node;
}

}  // namespace

// The loosest first.
ExpressionPtr ExpressionParser::parse_expression() {
  const Nesting nesting(*this);
  ExpressionPtr value = parse_or();
  while (try_name("if")) {
    auto choice = std::make_unique<Choice>();
    choice->then = std::move(value);
    choice->condition = parse_or();
    if (try_name("else")) choice->otherwise = parse_expression();
    value = std::move(choice);
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_or() {
  const Nesting nesting(*this);
  ExpressionPtr left = parse_and();
  while (try_name("or")) left = binary("or", std::move(left), parse_and());
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  while (try_name("and")) left = binary("and", std::move(left), parse_not());
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  const Nesting nesting(*this);
  if (!try_name("not")) return parse_comparison();
  return unary("not", parse_not());
}

std::optional<std::string> ExpressionParser::try_comparison() {
  for (const std::string_view symbol : {"==", "!=", "<=", ">=", "<", ">"}) {
    if (try_symbol(symbol)) return std::string(symbol);
  }
  if (try_name("in")) return "in";
  if (is_name("not") && peek(1).kind == Kind::name && peek(1).text == "in") {
    take();
    take();
    return "not in";
  }
  return std::nullopt;
}

ExpressionPtr ExpressionParser::parse_comparison() {
  ExpressionPtr first = parse_sum();
  auto node = std::make_unique<Comparison>();
  while (const auto symbol = try_comparison()) node->rest.emplace_back(*symbol, parse_sum());
  if (node->rest.empty()) return first;
  node->first = std::move(first);
  return node;
}

template <class Operand>
ExpressionPtr ExpressionParser::parse_chain(std::initializer_list<std::string_view> symbols, Operand operand) {
  ExpressionPtr left = operand();
  while (true) {
    std::string_view found;
    for (const std::string_view symbol : symbols) {
      if (is_symbol(symbol)) found = symbol;
    }
    if (found.empty()) return left;
    take();
    left = binary(std::string(found), std::move(left), operand());
  }
}

ExpressionPtr ExpressionParser::parse_sum() {
  return parse_chain({"+", "-"}, [&] { return parse_join(); });
}

ExpressionPtr ExpressionParser::parse_join() {
  return parse_chain({"~"}, [&] { return parse_product(); });
}

ExpressionPtr ExpressionParser::parse_product() {
  return parse_chain({"*", "/", "//", "%"}, [&] { return parse_power(); });
}

ExpressionPtr ExpressionParser::parse_power() {
  return parse_chain({"**"}, [&] { return parse_unary(true); });
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  const Nesting nesting(*this);
  ExpressionPtr value;
  if (is_symbol("-") || is_symbol("+")) {
    std::string symbol = take().text;
    value = unary(std::move(symbol), parse_unary(false));
  } else {
    value = parse_postfix(parse_primary());
  }
  return with_filters ? parse_filters(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token token = take();
  switch (token.kind) {
    case Kind::name:
      if (token.text == "true" || token.text == "True") return std::make_unique<Constant>(true);
      if (token.text == "false" || token.text == "False") return std::make_unique<Constant>(false);
      if (token.text == "none" || token.text == "None") return std::make_unique<Constant>(None{});
      return std::make_unique<Name>(token.text);
    case Kind::string: {
      std::string text = token.text;
      while (peek().kind == Kind::string) text += take().text;
      return std::make_unique<Constant>(Value::of_template(std::move(text)));
    }
    case Kind::integer: {
      std::int64_t number = 0;
      const char* end = token.text.data() + token.text.size();
      if (std::from_chars(token.text.data(), end, number).ec != std::errc()) refuse(token.text + " is too large");
      return std::make_unique<Constant>(number);
    }
    case Kind::real: return std::make_unique<Constant>(std::stod(token.text));
    default: break;
  }
  if (token.kind == Kind::symbol && token.text == "(") return parse_bracketed();
  if (token.kind == Kind::symbol && token.text == "[") return parse_list();
  if (token.kind == Kind::symbol && token.text == "{") return parse_dict();
  refuse("a value is expected, not " + described(token));
}

ExpressionPtr ExpressionParser::parse_rest_of_tuple(ExpressionPtr first) {
  auto tuple = std::make_unique<ListOf>();
  tuple->is_tuple = true;
  tuple->items.push_back(std::move(first));
  while (try_symbol(",")) {
    if (is_symbol(")") || peek().kind == Kind::block_end) break;
    tuple->items.push_back(parse_expression());
  }
  return tuple;
}

ExpressionPtr ExpressionParser::parse_bracketed() {
  if (try_symbol(")")) {
    auto tuple = std::make_unique<ListOf>();
    tuple->is_tuple = true;
    return tuple;
  }
  ExpressionPtr value = parse_expression();
  if (is_symbol(",")) value = parse_rest_of_tuple(std::move(value));
  expect_symbol(")");
  return value;
}

ExpressionPtr ExpressionParser::parse_list() {
  auto list = std::make_unique<ListOf>();
  while (!try_symbol("]")) {
    if (!list->items.empty()) {
      expect_symbol(",");
      if (try_symbol("]")) break;
    }
    list->items.push_back(parse_expression());
  }
  return list;
}

ExpressionPtr ExpressionParser::parse_dict() {
  auto dict = std::make_unique<DictOf>();
  while (!try_symbol("}")) {
    if (!dict->entries.empty()) {
      expect_symbol(",");
      if (try_symbol("}")) break;
    }
    ExpressionPtr key = parse_expression();
    expect_symbol(":");
    dict->entries.emplace_back(std::move(key), parse_expression());
  }
  return dict;
}

// .name [key] [a:b:c] (arguments)
ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr value) {
  while (true) {
    if (try_symbol(".")) {
      if (peek().kind != Kind::name) refuse("a name is expected after the point, not " + described(peek()));
      auto node = std::make_unique<Attribute>();
      node->object = std::move(value);
      node->name = take().text;
      node->key = Value::of_template(node->name);
      node->is_method = is_method_name(node->name);
      value = std::move(node);
    } else if (try_symbol("[")) {
      value = parse_subscript(std::move(value));
    } else if (is_symbol("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee) {
  auto node = std::make_unique<Call>();
  node->callee = std::move(callee);
  node->operands = parse_operands();
  return node;
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  std::array<ExpressionPtr, 3> parts;
  std::size_t colons = 0;
  while (!is_symbol("]")) {
    if (try_symbol(":")) {
      if (++colons > 2) refuse("a slice has at most two colons");
    } else {
      if (parts[colons]) refuse("\"]\" is expected, not " + described(peek()));
      parts[colons] = parse_expression();
    }
  }
  take();
  if (colons == 0) {
    if (!parts[0]) refuse("a key is expected");
    auto item = std::make_unique<Item>();
    item->object = std::move(object);
    item->key = std::move(parts[0]);
    return item;
  }
  auto slice = std::make_unique<Slice>();
  slice->object = std::move(object);
  slice->begin = std::move(parts[0]);
  slice->end = std::move(parts[1]);
  slice->stride = std::move(parts[2]);
  return slice;
}

Operands ExpressionParser::parse_operands() {
  Operands operands;
  expect_symbol("(");
  bool first = true;
  while (!try_symbol(")")) {
    if (!first) {
      expect_symbol(",");
      if (try_symbol(")")) break;
    }
    first = false;
    if (is_symbol("*") || is_symbol("**")) refuse("unpacked arguments are not supported");
    if (peek().kind == Kind::name && peek(1).kind == Kind::symbol && peek(1).text == "=") {
      std::string name = take().text;
      take();
      operands.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (!operands.named.empty()) refuse("an argument by place comes after one by name");
      operands.placed.push_back(parse_expression());
    }
  }
  return operands;
}

// |filter, is test, and calls of what these give.
ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr value) {
  while (true) {
    if (try_symbol("|")) {
      auto node = std::make_unique<Filter>();
      node->name = take_name();
      node->filter = find_filter(node->name);
      if (!node->filter) refuse("the filter " + in_quotes(node->name) + " is not supported");
      if (is_symbol("(")) node->operands = parse_operands();
      node->input = std::move(value);
      value = std::move(node);
    } else if (try_name("is")) {
      value = parse_test(std::move(value));
    } else if (is_symbol("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr input) {
  auto node = std::make_unique<Test>();
  node->negated = try_name("not");
  node->name = take_name();
  node->test = find_test(node->name);
  if (!node->test) refuse("the test " + in_quotes(node->name) + " is not supported");
  const Token& next = peek();
  const bool is_word = next.kind == Kind::name && next.text != "else" && next.text != "or" && next.text != "and";
  if (is_word && (next.text == "if" || next.text == "in" || next.text == "not" || next.text == "is")) {
    refuse(in_quotes(next.text) + " may not follow a test: put the test into brackets");
  }
  if (is_symbol("(")) {
    node->operands = parse_operands();
  } else if (is_word || next.kind == Kind::string || next.kind == Kind::integer || next.kind == Kind::real ||
             is_symbol("[") || is_symbol("{")) {
    node->operands.placed.push_back(parse_postfix(parse_primary()));
  }
  node->input = std::move(input);
  return node;
}

}  // namespace millrace::jinja
