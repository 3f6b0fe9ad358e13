#pragma once
// Exact arithmetic for the calculator: + - * / and parentheses over integers and decimals, as fractions of 64-bit
// integers. What a model writes may be anything: every failure is a text it can learn from.
#include <cstdint>
#include <string>
#include <string_view>

#include "config/expected.hpp"

namespace millrace {

struct Fraction {  // lowest terms, denominator > 0
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;
};

// Errors: malformed expression (says where), division by zero, number too large.
expected<Fraction> evaluate(std::string_view expression);

// "84", "-0.125"; "about 3.3333333333" where no decimal is exact or it would be longer than that.
std::string to_text(const Fraction& value);

}  // namespace millrace
