// Tests (`is defined`), as Jinja 3 documents them.
#include <algorithm>
#include <unordered_map>

#include "models/text/jinja/library.hpp"
#include "models/text/jinja/strings.hpp"

namespace millrace::jinja {
namespace {

template <bool (*holds)(const Value&)>
Value test(Arguments& arguments) {
  const Value value = arguments.required("value");
  arguments.done();
  return holds(value);
}

template <bool (*holds)(const Value&, const Value&)>
Value test_pair(Arguments& arguments) {
  const Value a = arguments.required("value"), b = arguments.required("other");
  arguments.done();
  return holds(a, b);
}

bool is_integer(const Value& v) { return std::holds_alternative<std::int64_t>(v.any()); }
bool is_iterable(const Value& v) { return v.is_undefined() || v.text() || v.list() || v.dict(); }
bool is_even(const Value& v) { return integer_of(v, "even") % 2 == 0; }

const std::unordered_map<std::string_view, Builtin*> tests = {
    {"defined", test<[](const Value& v) { return !v.is_undefined(); }>},
    {"undefined", test<[](const Value& v) { return v.is_undefined(); }>},
    {"none", test<[](const Value& v) { return v.is_none(); }>},
    {"string", test<[](const Value& v) { return v.text() != nullptr; }>},
    {"mapping", test<[](const Value& v) { return v.dict() != nullptr; }>},
    {"iterable", test<is_iterable>},
    {"sequence", test<is_iterable>},
    {"number", test<[](const Value& v) { return v.is_number(); }>},
    {"integer", test<is_integer>},
    {"float", test<[](const Value& v) { return v.real() != nullptr; }>},
    {"boolean", test<[](const Value& v) { return v.truth() != nullptr; }>},
    {"true", test<[](const Value& v) { return v.truth() && *v.truth(); }>},
    {"false", test<[](const Value& v) { return v.truth() && !*v.truth(); }>},
    {"callable", test<[](const Value& v) { return v.function() != nullptr; }>},
    {"even", test<is_even>},
    {"odd", test<[](const Value& v) { return !is_even(v); }>},
    {"eq", test_pair<are_equal>},
    {"equalto", test_pair<are_equal>},
    {"ne", test_pair<[](const Value& a, const Value& b) { return !are_equal(a, b); }>},
    {"lt", test_pair<is_less>},
    {"gt", test_pair<[](const Value& a, const Value& b) { return is_less(b, a); }>},
    {"le", test_pair<[](const Value& a, const Value& b) { return is_less(a, b) || are_equal(a, b); }>},
    {"ge", test_pair<[](const Value& a, const Value& b) { return is_less(b, a) || are_equal(a, b); }>},
    {"in", test_pair<[](const Value& a, const Value& b) {
       if (b.dict()) return b.dict()->find(a) != nullptr;
       if (b.text() && a.text()) return b.text()->text.find(a.text()->text) != std::string::npos;
       return std::ranges::any_of(items_of(b), [&](const Value& item) { return are_equal(item, a); });
     }>}};

}  // namespace

Builtin* find_test(std::string_view name) {
  const auto found = tests.find(name);
  return found == tests.end() ? nullptr : found->second;
}

}  // namespace millrace::jinja
