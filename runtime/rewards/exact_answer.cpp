#include <charconv>
#include <optional>

#include "runtime/rewards/kinds.hpp"

namespace millrace {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

std::string_view last_line(std::string_view text) {
  text = trimmed(text);
  const std::size_t newline = text.rfind('\n');
  return newline == std::string_view::npos ? text : trimmed(text.substr(newline + 1));
}

std::size_t digits_end(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

// End of the number that begins at `start`, `start` itself where none does. In the words of a regular expression:
// [-+]? (\d{1,3}(?!\d)(,\d{3}(?!\d))* | \d+)? (\.\d+)? ([eE][-+]?\d+)?, with a digit before the exponent.
std::size_t number_end(std::string_view text, std::size_t start) {
  const auto digit_at = [&](std::size_t at) { return at < text.size() && is_digit(text[at]); };
  const auto sign_at = [&](std::size_t at) { return at < text.size() && (text[at] == '-' || text[at] == '+'); };
  const std::size_t whole = start + (sign_at(start) ? 1 : 0);
  std::size_t end = digits_end(text, whole);
  if (end - whole >= 1 && end - whole <= 3) {
    while (end < text.size() && text[end] == ',' && digits_end(text, end + 1) == end + 4) end += 4;
  }
  if (end < text.size() && text[end] == '.' && digit_at(end + 1)) end = digits_end(text, end + 1);
  if (end == whole) return start;
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    const std::size_t exponent = end + 1 + (sign_at(end + 1) ? 1 : 0);
    if (digit_at(exponent)) end = digits_end(text, exponent);
  }
  return end;
}

// Value of a whole text that is one number; nothing where it is none, or too large.
std::optional<double> number_of(std::string_view text) {
  if (text.empty() || number_end(text, 0) != text.size()) return std::nullopt;
  std::string plain;
  for (const char c : text.substr(text[0] == '+' ? 1 : 0)) {
    if (c != ',') plain += c;
  }
  double value = 0;
  const auto parsed = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  return parsed.ec == std::errc{} ? std::optional(value) : std::nullopt;
}

// "3-2" ends with 2, "x = -2." with -2: a sign after a word or a bracket is an operator.
std::string_view last_number(std::string_view text) {
  std::string_view last;
  for (std::size_t at = 0; at < text.size();) {
    const bool sign = text[at] == '-' || text[at] == '+';
    const bool operation = sign && at > 0 && (is_word(text[at - 1]) || text[at - 1] == ')');
    const std::size_t end = operation ? at : number_end(text, at);
    if (end > at) last = text.substr(at, end - at);
    at = end > at ? end : at + 1;
  }
  return last;
}

}  // namespace

// 1 for the right answer, else 0. A number is compared as a value ("84.0" is right for "84") with the last number of
// the answer, other text with its last line. A task without an expected answer has no right one.
expected<PartFunction> make_exact_answer(const nlohmann::json&) {
  return [](const std::string& answer, const std::string& expected_answer) {
    const std::string_view right = trimmed(expected_answer);
    if (right.empty()) return 0.0;
    const auto value = number_of(right);
    const bool equal = value ? number_of(last_number(answer)) == value : last_line(answer) == right;
    return equal ? 1.0 : 0.0;
  };
}

}  // namespace millrace
