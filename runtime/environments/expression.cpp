#include "runtime/environments/expression.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace millrace {
namespace {

constexpr std::size_t longest_expression = 1000;  // characters
constexpr int deepest_nesting = 50;               // parentheses and signs
constexpr int decimals = 10;                      // of a result

using Result = expected<Fraction>;

Result too_large() { return fail("number too large"); }

// Lowest terms. The smallest integer has no negative and no absolute value: it counts as too large.
Result fraction(std::int64_t numerator, std::int64_t denominator) {
  constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();
  if (numerator == smallest || denominator == smallest) return too_large();
  const std::int64_t divisor = std::gcd(numerator, denominator) * (denominator < 0 ? -1 : 1);
  return Fraction{numerator / divisor, denominator / divisor};
}

Result add(const Fraction& a, const Fraction& b) {
  std::int64_t left = 0, right = 0, sum = 0, denominator = 0;
  if (__builtin_mul_overflow(a.numerator, b.denominator, &left) ||
      __builtin_mul_overflow(b.numerator, a.denominator, &right) || __builtin_add_overflow(left, right, &sum) ||
      __builtin_mul_overflow(a.denominator, b.denominator, &denominator)) {
    return too_large();
  }
  return fraction(sum, denominator);
}

Result multiply(const Fraction& a, const Fraction& b) {
  std::int64_t numerator = 0, denominator = 0;
  if (__builtin_mul_overflow(a.numerator, b.numerator, &numerator) ||
      __builtin_mul_overflow(a.denominator, b.denominator, &denominator)) {
    return too_large();
  }
  return fraction(numerator, denominator);
}

Fraction negative(const Fraction& a) { return {-a.numerator, a.denominator}; }

Result divide(const Fraction& a, const Fraction& b) {
  if (b.numerator == 0) return fail("division by zero");
  return multiply(a, b.numerator > 0 ? Fraction{b.denominator, b.numerator} : Fraction{-b.denominator, -b.numerator});
}

bool is_digit(int c) { return c >= '0' && c <= '9'; }

// Recursive descent: sum = product {(+|-) product}, product = factor {(*|/) factor},
// factor = (+|-) factor | "(" sum ")" | number.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result parse() {
    Result value = sum();
    if (value && next() != end) return malformed();
    return value;
  }

 private:
  static constexpr int end = -1;

  // The next character that is no blank, not taken yet.
  int next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : end;
  }

  // Shows only what was understood, which is ASCII: half a UTF-8 character would break what carries the text.
  tl::unexpected<Error> malformed() const {
    constexpr std::size_t shown = 12;
    const std::string before(text_.substr(at_ > shown ? at_ - shown : 0, std::min(at_, shown)));
    return fail("malformed expression after \"" + before + "\": expected numbers, + - * / and parentheses");
  }

  Result sum() {
    Result value = product();
    while (value && (next() == '+' || next() == '-')) {
      const bool plus = text_[at_++] == '+';
      const Result right = product();
      value = right ? add(*value, plus ? *right : negative(*right)) : right;
    }
    return value;
  }

  Result product() {
    Result value = factor();
    while (value && (next() == '*' || next() == '/')) {
      const bool times = text_[at_++] == '*';
      const Result right = factor();
      value = !right ? right : times ? multiply(*value, *right) : divide(*value, *right);
    }
    return value;
  }

  Result factor() {
    const int first = next();
    if (first == '.' || is_digit(first)) return number();
    if (first != '+' && first != '-' && first != '(') return malformed();
    if (++depth_ > deepest_nesting) return fail("malformed expression: nested too deeply");
    ++at_;
    Result value = first == '(' ? sum() : factor();
    if (value && first == '-') value = negative(*value);
    if (value && first == '(') {
      if (next() != ')') return malformed();
      ++at_;
    }
    --depth_;
    return value;
  }

  Result number() {
    std::int64_t digits = 0, scale = 1;
    bool any = false, point = false;
    for (; at_ < text_.size() && (is_digit(text_[at_]) || (text_[at_] == '.' && !point)); ++at_) {
      if (text_[at_] == '.') {
        point = true;
        continue;
      }
      any = true;
      if (__builtin_mul_overflow(digits, 10, &digits) || __builtin_add_overflow(digits, text_[at_] - '0', &digits) ||
          (point && __builtin_mul_overflow(scale, 10, &scale))) {
        return too_large();
      }
    }
    if (!any) return malformed();
    return fraction(digits, scale);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

expected<Fraction> evaluate(std::string_view expression) {
  if (expression.size() > longest_expression) return fail("malformed expression: longer than 1000 characters");
  return Parser(expression).parse();
}

std::string to_text(const Fraction& value) {
  std::string text = value.numerator < 0 ? "-" : "";
  std::int64_t rest = value.numerator < 0 ? -value.numerator : value.numerator;
  text += std::to_string(rest / value.denominator);
  rest %= value.denominator;
  if (rest == 0) return text;
  text += '.';
  // Long division; the remainder times ten may not fit into 64 bits.
  unsigned __int128 wide = static_cast<unsigned __int128>(rest);
  const auto denominator = static_cast<unsigned __int128>(value.denominator);
  for (int i = 0; i < decimals && wide != 0; ++i) {
    wide *= 10;
    text += static_cast<char>('0' + static_cast<int>(wide / denominator));
    wide %= denominator;
  }
  return wide == 0 ? text : "about " + text;
}

}  // namespace millrace
