#pragma once
// Text that remembers of every byte who wrote it: the chat template, or somebody in the conversation. Only what the
// template wrote may become a control token, whatever a message says.
#include <string>
#include <string_view>
#include <utility>

namespace millrace {

struct MarkedText {
  std::string text;
  std::string marks;  // one a byte: `trusted` where the template wrote it, `quoted` where it is of the conversation

  static constexpr char trusted = 0;
  static constexpr char quoted = 1;

  MarkedText() = default;
  MarkedText(std::string bytes, char mark) : text(std::move(bytes)), marks(text.size(), mark) {}

  std::size_t size() const { return text.size(); }
  MarkedText substr(std::size_t begin, std::size_t count = std::string::npos) const {
    MarkedText part;
    part.text = text.substr(begin, count);
    part.marks = marks.substr(begin, count);
    return part;
  }
  MarkedText& operator+=(const MarkedText& more) {
    text += more.text;
    marks += more.marks;
    return *this;
  }
};

}  // namespace millrace
