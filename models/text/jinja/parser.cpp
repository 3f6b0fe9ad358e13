#include "models/text/jinja/parser.hpp"

#include "models/text/jinja/expression_parser.hpp"

namespace millrace::jinja {
namespace {

class Parser : ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Block run() { return parse_block({}); }

 private:
  // A block ends before the tag whose name is one of `ends`.
  Block parse_block(std::vector<std::string_view> ends) {
    const Nesting nesting(*this);
    Block block;
    while (true) {
      const int line = peek().line;
      std::unique_ptr<Statement> statement;
      switch (peek().kind) {
        case Kind::text: {
          auto text = std::make_unique<Text>();
          text->text = MarkedText(take().text, MarkedText::trusted);
          statement = std::move(text);
          break;
        }
        case Kind::output_begin: {
          take();
          auto output = std::make_unique<Output>();
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
      auto generation = std::make_unique<Generation>();
      expect_end(Kind::block_end);
      generation->body = parse_block({"endgeneration"});
      end_block("endgeneration");
      return generation;
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) refuse("{% " + name + " %} stands outside of a loop");
      auto jump = std::make_unique<Jump>();
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
    auto node = std::make_unique<If>();
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
    auto node = std::make_unique<For>();
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
    auto node = std::make_unique<Set>();
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
    auto node = std::make_unique<Macro>();
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

  int loops_ = 0;
};

}  // namespace

Block parsed(std::string_view source) { return Parser(source).run(); }

}  // namespace millrace::jinja
