#include "models/text/jinja/parser.hpp"

#include <array>
#include <charconv>

#include "models/text/jinja/lexer.hpp"
#include "models/text/utf8.hpp"

namespace millrace::jinja {
namespace {

constexpr int deepest_nesting = 150;

template <class Node>
std::unique_ptr<Node> make() {
  return std::make_unique<Node>();
}

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokens_of(source)) {}

  Block run() { return parse_block({}); }

 private:
  // Tokens.
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
    explicit Nesting(Parser& owner) : parser(owner) {
      if (++parser.depth_ > deepest_nesting) parser.refuse("it is nested too deeply");
    }
    ~Nesting() { --parser.depth_; }
    Parser& parser;
  };

  // Statements. A block ends before the tag whose name is one of `ends`.
  Block parse_block(std::vector<std::string_view> ends) {
    const Nesting nesting(*this);
    Block block;
    while (true) {
      const int line = peek().line;
      std::unique_ptr<Statement> statement;
      switch (peek().kind) {
        case Kind::text: {
          auto text = make<Text>();
          text->text = MarkedText(take().text, MarkedText::trusted);
          statement = std::move(text);
          break;
        }
        case Kind::output_begin: {
          take();
          auto output = make<Output>();
          output->value = parse_expression();
          expect_end(Kind::output_end);
          statement = std::move(output);
          break;
        }
        case Kind::block_begin: {
          for (const std::string_view end : ends) {
            if (peek(1).text == end) return block;
          }
          take();
          statement = parse_statement();
          break;
        }
        default:
          if (!ends.empty()) refuse("{% " + std::string(ends.back()) + " %} is missing");
          return block;
      }
      statement->line = line;
      block.statements.push_back(std::move(statement));
    }
  }

  std::unique_ptr<Statement> parse_statement() {
    const std::string name = take_name();
    if (name == "if") return parse_if();
    if (name == "for") return parse_for();
    if (name == "set") return parse_set();
    if (name == "macro") return parse_macro();
    if (name == "generation") {
      auto generation = make<Generation>();
      expect_end(Kind::block_end);
      generation->body = parse_block({"endgeneration"});
      end_block("endgeneration");
      return generation;
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) refuse("{% " + name + " %} stands outside of a loop");
      auto jump = make<Jump>();
      jump->flow = name == "break" ? Flow::leave_loop : Flow::next_round;
      expect_end(Kind::block_end);
      return jump;
    }
    if (name.starts_with("end") || name.starts_with("el")) refuse("nothing is open that {% " + name + " %} could end");
    refuse("the tag {% " + name + " %} is not supported");
  }

  void end_block(std::string_view name) {
    take();
    expect_name(name);
    expect_end(Kind::block_end);
  }

  std::unique_ptr<Statement> parse_if() {
    auto node = make<If>();
    do {
      ExpressionPtr condition = parse_or();
      expect_end(Kind::block_end);
      node->branches.emplace_back(std::move(condition), parse_block({"elif", "else", "endif"}));
      take();
    } while (try_name("elif"));
    if (try_name("else")) {
      expect_end(Kind::block_end);
      node->otherwise = parse_block({"endif"});
      take();
    }
    expect_name("endif");
    expect_end(Kind::block_end);
    return node;
  }

  std::unique_ptr<Statement> parse_for() {
    auto node = make<For>();
    node->target = parse_target();
    if (!node->target.attribute.empty()) refuse("a loop goes over names, not attributes");
    expect_name("in");
    node->items = parse_or();
    if (try_name("if")) node->condition = parse_or();
    if (is_name("recursive")) refuse("recursive loops are not supported");
    expect_end(Kind::block_end);
    ++loops_;
    node->body = parse_block({"else", "endfor"});
    --loops_;
    take();
    if (try_name("else")) {
      expect_end(Kind::block_end);
      node->otherwise = parse_block({"endfor"});
      take();
    }
    expect_name("endfor");
    expect_end(Kind::block_end);
    return node;
  }

  Target parse_target() {
    Target target;
    const bool bracketed = try_symbol("(");
    do {
      target.names.push_back(take_name());
    } while (try_symbol(","));
    if (bracketed) expect_symbol(")");
    if (target.names.size() == 1 && try_symbol(".")) target.attribute = take_name();
    return target;
  }

  std::unique_ptr<Statement> parse_set() {
    auto node = make<Set>();
    node->target = parse_target();
    if (try_symbol("=")) {
      node->value = parse_expression();
      if (is_symbol(",")) node->value = parse_rest_of_tuple(std::move(node->value));
      expect_end(Kind::block_end);
    } else {
      expect_end(Kind::block_end);
      node->body = parse_block({"endset"});
      end_block("endset");
    }
    return node;
  }

  std::unique_ptr<Statement> parse_macro() {
    auto node = make<Macro>();
    node->name = take_name();
    expect_symbol("(");
    while (!try_symbol(")")) {
      if (!node->parameters.empty()) expect_symbol(",");
      std::string parameter = take_name();
      ExpressionPtr otherwise = try_symbol("=") ? parse_expression() : nullptr;
      node->parameters.emplace_back(std::move(parameter), std::move(otherwise));
    }
    expect_end(Kind::block_end);
    const int loops = std::exchange(loops_, 0);
    node->body = parse_block({"endmacro"});
    loops_ = loops;
    end_block("endmacro");
    return node;
  }

  // Expressions, the loosest first.
  ExpressionPtr parse_expression() {
    const Nesting nesting(*this);
    ExpressionPtr value = parse_or();
    while (try_name("if")) {
      auto choice = make<Choice>();
      choice->then = std::move(value);
      choice->condition = parse_or();
      if (try_name("else")) choice->otherwise = parse_expression();
      value = std::move(choice);
    }
    return value;
  }

  ExpressionPtr binary(std::string symbol, ExpressionPtr left, ExpressionPtr right) {
    auto node = make<Binary>();
    node->symbol = std::move(symbol);
    node->left = std::move(left);
    node->right = std::move(right);
    return node;
  }

  ExpressionPtr parse_or() {
    const Nesting nesting(*this);
    ExpressionPtr left = parse_and();
    while (try_name("or")) left = binary("or", std::move(left), parse_and());
    return left;
  }
  ExpressionPtr parse_and() {
    ExpressionPtr left = parse_not();
    while (try_name("and")) left = binary("and", std::move(left), parse_not());
    return left;
  }
  ExpressionPtr parse_not() {
    const Nesting nesting(*this);
    if (!try_name("not")) return parse_comparison();
    return unary("not", parse_not());
  }
  ExpressionPtr unary(std::string symbol, ExpressionPtr operand) {
    auto node = make<Unary>();
    node->symbol = std::move(symbol);
    node->operand = std::move(operand);
    return node;
  }

  std::optional<std::string> try_comparison() {
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
  ExpressionPtr parse_comparison() {
    ExpressionPtr first = parse_sum();
    auto node = make<Comparison>();
    while (const auto symbol = try_comparison()) node->rest.emplace_back(*symbol, parse_sum());
    if (node->rest.empty()) return first;
    node->first = std::move(first);
    return node;
  }

  template <class Operand>
  ExpressionPtr parse_chain(std::initializer_list<std::string_view> symbols, Operand operand) {
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
  ExpressionPtr parse_sum() {
    return parse_chain({"+", "-"}, [&] { return parse_join(); });
  }
  ExpressionPtr parse_join() {
    return parse_chain({"~"}, [&] { return parse_product(); });
  }
  ExpressionPtr parse_product() {
    return parse_chain({"*", "/", "//", "%"}, [&] { return parse_power(); });
  }
  ExpressionPtr parse_power() {
    return parse_chain({"**"}, [&] { return parse_unary(true); });
  }
  ExpressionPtr parse_unary(bool with_filters) {
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

  ExpressionPtr parse_primary() {
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

  ExpressionPtr parse_rest_of_tuple(ExpressionPtr first) {
    auto tuple = make<ListOf>();
    tuple->is_tuple = true;
    tuple->items.push_back(std::move(first));
    while (try_symbol(",")) {
      if (is_symbol(")") || peek().kind == Kind::block_end) break;
      tuple->items.push_back(parse_expression());
    }
    return tuple;
  }
  ExpressionPtr parse_bracketed() {
    if (try_symbol(")")) {
      auto tuple = make<ListOf>();
      tuple->is_tuple = true;
      return tuple;
    }
    ExpressionPtr value = parse_expression();
    if (is_symbol(",")) value = parse_rest_of_tuple(std::move(value));
    expect_symbol(")");
    return value;
  }
  ExpressionPtr parse_list() {
    auto list = make<ListOf>();
    while (!try_symbol("]")) {
      if (!list->items.empty()) {
        expect_symbol(",");
        if (try_symbol("]")) break;
      }
      list->items.push_back(parse_expression());
    }
    return list;
  }
  ExpressionPtr parse_dict() {
    auto dict = make<DictOf>();
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
  ExpressionPtr parse_postfix(ExpressionPtr value) {
    while (true) {
      if (try_symbol(".")) {
        if (peek().kind != Kind::name) refuse("a name is expected after the point, not " + described(peek()));
        auto node = make<Attribute>();
        node->object = std::move(value);
        node->name = take().text;
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
  ExpressionPtr parse_call(ExpressionPtr callee) {
    auto node = make<Call>();
    node->callee = std::move(callee);
    node->operands = parse_operands();
    return node;
  }
  ExpressionPtr parse_subscript(ExpressionPtr object) {
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
      auto item = make<Item>();
      item->object = std::move(object);
      item->key = std::move(parts[0]);
      return item;
    }
    auto slice = make<Slice>();
    slice->object = std::move(object);
    slice->begin = std::move(parts[0]);
    slice->end = std::move(parts[1]);
    slice->stride = std::move(parts[2]);
    return slice;
  }

  Operands parse_operands() {
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
  ExpressionPtr parse_filters(ExpressionPtr value) {
    while (true) {
      if (try_symbol("|")) {
        auto node = make<Filter>();
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
  ExpressionPtr parse_test(ExpressionPtr input) {
    auto node = make<Test>();
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

  const std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;
};

}  // namespace

Block parsed(std::string_view source) { return Parser(source).run(); }

}  // namespace millrace::jinja
