#pragma once
// What filters and methods do to strings, as Python does it. All keep the marks of what they keep.
#include "models/text/jinja/value.hpp"
#include "models/text/unicode.hpp"

namespace millrace::jinja {

// Without white space at its ends, or without the given characters.
Value stripped(const MarkedText& text, const Value& characters, bool left, bool right);

// At most `most` cuts, -1: as many as there are; from the right end with `from_right`. No separator: at white space.
Value split(const MarkedText& text, const Value& separator, std::int64_t most, bool from_right);

Value replaced(const MarkedText& text, const MarkedText& from, const MarkedText& to, std::int64_t most);
Value joined_by(const MarkedText& separator, const std::vector<Value>& items, bool convert);
Value in_other_case(const MarkedText& text, std::string (*change)(std::string_view));
Value capitalized(const MarkedText& text);
Value indented(const MarkedText& text, const MarkedText& by, bool first, bool blank);
Value lines_of(const MarkedText& text);
List items_of_dict(const Dict& dict);  // pairs

}  // namespace millrace::jinja
