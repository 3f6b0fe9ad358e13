#pragma once
// Tokens of an expression -> nodes. Throws Failure with the line for all that is unknown.
#include "models/text/jinja/nodes.hpp"
#include "models/text/jinja/token_reader.hpp"

namespace millrace::jinja {

class ExpressionParser : protected TokenReader {
 protected:
  using TokenReader::TokenReader;

  ExpressionPtr parse_expression();
  ExpressionPtr parse_or();                                // anything but `a if b else c`
  ExpressionPtr parse_rest_of_tuple(ExpressionPtr first);  // after its first member

 private:
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  std::optional<std::string> try_comparison();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_join();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_bracketed();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr value);
  ExpressionPtr parse_call(ExpressionPtr callee);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  Operands parse_operands();
  ExpressionPtr parse_filters(ExpressionPtr value);
  ExpressionPtr parse_test(ExpressionPtr input);
  template <class Operand>
  ExpressionPtr parse_chain(std::initializer_list<std::string_view> symbols, Operand operand);
};

}  // namespace millrace::jinja
