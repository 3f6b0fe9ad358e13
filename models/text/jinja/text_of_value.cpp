// How Python writes values down: str(), repr() and json.dumps().
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "models/text/jinja/value.hpp"
#include "models/text/unicode.hpp"
#include "models/text/utf8.hpp"

namespace millrace::jinja {
namespace {

// The shortest digits that give the number back; an exponent below 1e-4 and from 1e16 on.
std::string text_of_real(double number, bool json) {
  if (std::isnan(number)) return json ? "NaN" : "nan";
  if (std::isinf(number)) return std::string(number < 0 ? "-" : "") + (json ? "Infinity" : "inf");
  std::array<char, 32> buffer;
  const auto write = [&](std::chars_format format) {
    return std::string(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, format).ptr);
  };
  const double size = std::abs(number);
  if (size != 0 && (size < 1e-4 || size >= 1e16)) return write(std::chars_format::scientific);
  const std::string digits = write(std::chars_format::fixed);
  return digits.find('.') == std::string::npos ? digits + ".0" : digits;
}

std::string hexadecimal(char letter, char32_t code, int digits) {
  std::string text = {'\\', letter};
  for (int i = digits - 1; i >= 0; --i) text += "0123456789abcdef"[code >> 4 * i & 0xF];
  return text;
}

std::string repr_of(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, size] = character_at(text, at);
    if (code == static_cast<char32_t>(quote) || code == '\\')
      (out += '\\') += static_cast<char>(code);
    else if (code == '\n')
      out += "\\n";
    else if (code == '\r')
      out += "\\r";
    else if (code == '\t')
      out += "\\t";
    else if (is_printable(code))
      out += text.substr(at, size);
    else if (code < 0x100)
      out += hexadecimal('x', code, 2);
    else if (code < 0x10000)
      out += hexadecimal('u', code, 4);
    else
      out += hexadecimal('U', code, 8);
    at += size;
  }
  return out + quote;
}

std::string json_string(std::string_view text, bool ascii) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, size] = character_at(text, at);
    switch (code) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      default:
        if (code < 0x20 || (ascii && code >= 0x7F && code < 0x10000)) {
          out += hexadecimal('u', code, 4);
        } else if (ascii && code >= 0x10000) {
          out += hexadecimal('u', 0xD800 + ((code - 0x10000) >> 10), 4);
          out += hexadecimal('u', 0xDC00 + ((code - 0x10000) & 0x3FF), 4);
        } else {
          out += text.substr(at, size);
        }
    }
    at += size;
  }
  return out + '"';
}

// Puts `parts` between brackets, one a line with an indent.
std::string bracketed(char open, const std::vector<std::string>& parts, char close, const JsonStyle& style,
                      std::int64_t depth) {
  std::string out(1, open);
  if (parts.empty()) return out + close;
  const auto new_line = [&](std::int64_t levels) {
    return style.indent < 0 ? "" : '\n' + std::string(static_cast<std::size_t>(style.indent * levels), ' ');
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += style.item_separator;
    out += new_line(depth + 1) + parts[i];
  }
  return out + new_line(depth) + close;
}

std::string json_text(const Value& value, const JsonStyle& style, std::int64_t depth) {
  if (value.is_none()) return "null";
  if (const bool* truth = value.truth()) return *truth ? "true" : "false";
  if (const double* real = value.real()) return text_of_real(*real, true);
  if (value.is_number()) return std::to_string(integer_of(value, ""));
  if (const auto* text = value.text()) return json_string(text->text, style.ascii);
  std::vector<std::string> parts;
  if (const auto* list = value.list()) {
    for (const Value& item : list->items) parts.push_back(json_text(item, style, depth + 1));
    return bracketed('[', parts, ']', style, depth);
  }
  if (const auto* dict = value.dict()) {
    auto entries = dict->entries;
    if (style.sorted) std::ranges::stable_sort(entries, [](auto& a, auto& b) { return is_less(a.first, b.first); });
    for (const auto& [key, item] : entries) {
      const std::string name = key.text() ? key.text()->text : json_text(key, style, 0);
      parts.push_back(json_string(name, style.ascii) + style.key_separator + json_text(item, style, depth + 1));
    }
    return bracketed('{', parts, '}', style, depth);
  }
  throw Failure{"a " + type_name(value) + " cannot be written as JSON"};
}

// What a value looks like inside another one.
std::string repr_of(const Value& value) {
  const auto listed = [](const auto& items, auto write) {
    std::string out;
    for (const auto& item : items) out += (out.empty() ? "" : ", ") + write(item);
    return out;
  };
  const auto item = [](const Value& v) { return repr_of(v); };
  if (const auto* text = value.text()) return repr_of(std::string_view(text->text));
  if (const auto* list = value.list()) {
    const std::string items = listed(list->items, item);
    if (!list->is_tuple) return '[' + items + ']';
    return '(' + items + (list->items.size() == 1 ? ",)" : ")");
  }
  if (const auto* dict = value.dict()) {
    return '{' + listed(dict->entries, [](const auto& e) { return repr_of(e.first) + ": " + repr_of(e.second); }) + '}';
  }
  if (value.is_undefined()) return "Undefined";
  return str_of(value).text;
}

}  // namespace

MarkedText str_of(const Value& value) {
  if (const auto* text = value.text()) return *text;
  std::string text;
  if (value.is_none())
    text = "None";
  else if (const bool* truth = value.truth())
    text = *truth ? "True" : "False";
  else if (const double* real = value.real())
    text = text_of_real(*real, false);
  else if (value.is_number())
    text = std::to_string(integer_of(value, ""));
  else if (value.list() || value.dict())
    return {repr_of(value), MarkedText::quoted};
  else if (!value.is_undefined())
    throw Failure{"a " + type_name(value) + " has no text"};
  return {text, MarkedText::trusted};
}

Value json_of(const Value& value, const JsonStyle& style) {
  return MarkedText(json_text(value, style, 0), MarkedText::quoted);
}

}  // namespace millrace::jinja
