#include "models/text/jinja/strings.hpp"

#include <algorithm>

#include "models/text/utf8.hpp"

namespace millrace::jinja {
namespace {

// Beginnings of characters, and the end.
std::vector<std::size_t> boundaries(const MarkedText& text) {
  std::vector<std::size_t> at = {0};
  while (at.back() < text.size()) at.push_back(at.back() + character_at(text.text, at.back()).size);
  return at;
}

Value split_at_white_space(const MarkedText& text, std::int64_t most) {
  List parts;
  std::size_t at = 0;
  while (true) {
    while (at < text.size() && is_white_space(character_at(text.text, at).code)) at += character_at(text.text, at).size;
    if (at == text.size()) return parts;
    if (most == 0) {
      parts.items.push_back(stripped(text.substr(at), None{}, false, true));
      return parts;
    }
    const std::size_t begin = at;
    while (at < text.size() && !is_white_space(character_at(text.text, at).code))
      at += character_at(text.text, at).size;
    parts.items.emplace_back(text.substr(begin, at - begin));
    --most;
  }
}

}  // namespace

Value stripped(const MarkedText& text, const Value& characters, bool left, bool right) {
  const std::string* const which = characters.is_none() ? nullptr : &text_of(characters, "what is stripped").text;
  const std::vector<std::size_t> at = boundaries(text);
  const auto goes = [&](std::size_t i) {
    const auto character = std::string_view(text.text).substr(at[i], at[i + 1] - at[i]);
    return which ? which->find(character) != std::string::npos : is_white_space(character_at(text.text, at[i]).code);
  };
  std::size_t begin = 0, end = at.size() - 1;
  while (left && begin < end && goes(begin)) ++begin;
  while (right && end > begin && goes(end - 1)) --end;
  return text.substr(at[begin], at[end] - at[begin]);
}

Value split(const MarkedText& text, const Value& separator, std::int64_t most, bool from_right) {
  if (separator.is_none()) {
    if (from_right && most >= 0) throw Failure{"rsplit at white space with a limit is not supported"};
    return split_at_white_space(text, most);
  }
  const std::string& by = text_of(separator, "the separator").text;
  if (by.empty()) throw Failure{"the separator is empty"};
  List parts;
  std::size_t begin = 0, end = text.size();
  while (most != 0) {
    const std::size_t found =
        from_right ? std::string_view(text.text).substr(0, end).rfind(by) : text.text.find(by, begin);
    if (found == std::string::npos) break;
    if (from_right) {
      parts.items.emplace_back(text.substr(found + by.size(), end - found - by.size()));
      end = found;
    } else {
      parts.items.emplace_back(text.substr(begin, found - begin));
      begin = found + by.size();
    }
    --most;
  }
  parts.items.emplace_back(text.substr(begin, end - begin));
  if (from_right) std::ranges::reverse(parts.items);
  return parts;
}

Value replaced(const MarkedText& text, const MarkedText& from, const MarkedText& to, std::int64_t most) {
  MarkedText out;
  if (from.size() == 0) {  // between all characters, and at both ends
    const std::vector<std::size_t> at = boundaries(text);
    for (std::size_t i = 0; i < at.size(); ++i, --most) {
      if (most != 0) out = joined(out, to);
      if (i + 1 < at.size()) out += text.substr(at[i], at[i + 1] - at[i]);
    }
    return out;
  }
  std::size_t begin = 0;
  for (; most != 0; --most) {
    const std::size_t found = text.text.find(from.text, begin);
    if (found == std::string::npos) break;
    out += text.substr(begin, found - begin);
    out += to;
    if (out.size() > 64 << 20) throw Failure{"the text grows beyond 64 MiB"};
    begin = found + from.size();
  }
  out += text.substr(begin);
  return out;
}

Value joined_by(const MarkedText& separator, const std::vector<Value>& items, bool convert) {
  MarkedText out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += separator;
    out += convert ? str_of(items[i]) : text_of(items[i], "what is joined");
    if (out.size() > 64 << 20) throw Failure{"the text grows beyond 64 MiB"};
  }
  return out;
}

Value in_other_case(const MarkedText& text, std::string (*change)(std::string_view)) {
  MarkedText out;
  const std::vector<std::size_t> at = boundaries(text);
  for (std::size_t i = 0; i + 1 < at.size(); ++i) {
    out += MarkedText(change(std::string_view(text.text).substr(at[i], at[i + 1] - at[i])), text.marks[at[i]]);
  }
  return out;
}

Value capitalized(const MarkedText& text) {
  const std::vector<std::size_t> at = boundaries(text);
  const std::size_t first = at.size() > 1 ? at[1] : 0;
  MarkedText out = *in_other_case(text.substr(0, first), to_upper).text();
  out += *in_other_case(text.substr(first), to_lower).text();
  return out;
}

Value indented(const MarkedText& text, const MarkedText& by, bool first, bool blank) {
  const std::vector<Value> lines = items_of(split(text, Value::of_template("\n"), -1, false));
  MarkedText out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const MarkedText& line = *lines[i].text();
    if (i > 0) out += MarkedText("\n", MarkedText::trusted);
    if (i == 0 ? first : blank || line.size() > 0) out += by;
    out += line;
  }
  return out;
}

Value lines_of(const MarkedText& text) {
  List lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = begin, next = text.size();
    for (; end < text.size(); end += character_at(text.text, end).size) {
      const auto [code, size] = character_at(text.text, end);
      const bool breaks = (code >= '\n' && code <= '\r') || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
                          code == 0x2028 || code == 0x2029;
      if (!breaks) continue;
      next = end + size;
      if (code == '\r' && next < text.size() && text.text[next] == '\n') ++next;
      break;
    }
    lines.items.emplace_back(text.substr(begin, end - begin));
    begin = next;
  }
  return lines;
}

List items_of_dict(const Dict& dict) {
  List pairs;
  for (const auto& [key, value] : dict.entries) pairs.items.emplace_back(List{{key, value}, true});
  return pairs;
}

}  // namespace millrace::jinja
