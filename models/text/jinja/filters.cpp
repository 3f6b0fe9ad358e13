// Filters, as Jinja 3 documents them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "models/text/jinja/library.hpp"
#include "models/text/jinja/strings.hpp"

namespace millrace::jinja {
namespace {

Value given(Arguments& arguments, std::string_view name, Value otherwise) {
  return arguments.next(name).value_or(std::move(otherwise));
}

Value trim(Arguments& arguments) {
  const MarkedText text = str_of(arguments.required("value"));
  const Value characters = given(arguments, "chars", None{});
  arguments.done();
  return stripped(text, characters, true, true);
}

Value length(Arguments& arguments) {
  const Value value = arguments.required("value");
  arguments.done();
  if (value.is_undefined()) return std::int64_t{0};
  if (!value.text() && !value.list() && !value.dict()) throw Failure{"a " + type_name(value) + " has no length"};
  return static_cast<std::int64_t>(items_of(value).size());
}

// Also `safe`, which marks a text as not to be escaped: nothing is escaped here.
Value string(Arguments& arguments) {
  const Value value = arguments.required("value");
  arguments.done();
  return str_of(value);
}

Value tojson(Arguments& arguments) {
  const Value value = arguments.required("x");
  JsonStyle style;
  style.ascii = is_true(given(arguments, "ensure_ascii", false));
  const Value indent = given(arguments, "indent", None{});
  const Value separators = given(arguments, "separators", None{});
  style.sorted = is_true(given(arguments, "sort_keys", false));
  arguments.done();
  if (!indent.is_none()) {
    style.indent = std::clamp<std::int64_t>(integer_of(indent, "indent"), 0, 100);
    style.item_separator = ",";
  }
  if (!separators.is_none()) {
    const std::vector<Value> both = items_of(separators);
    if (both.size() != 2) throw Failure{"separators must be two strings"};
    style.item_separator = text_of(both[0], "a separator").text;
    style.key_separator = text_of(both[1], "a separator").text;
  }
  return json_of(value, style);
}

Value attribute_of(const Value& value, const Value& path) {
  Value found = value;
  for (const Value& part : items_of(split(text_of(path, "attribute"), Value::of_template("."), -1, false))) {
    found = item_of(found, part);
  }
  return found;
}

Value join(Arguments& arguments) {
  const Value value = arguments.required("value");
  const MarkedText separator = str_of(given(arguments, "d", Value::of_template("")));
  const Value attribute = given(arguments, "attribute", None{});
  arguments.done();
  std::vector<Value> items = items_of(value);
  if (!attribute.is_none()) {
    for (Value& item : items) item = attribute_of(item, attribute);
  }
  return joined_by(separator, items, true);
}

Value items(Arguments& arguments) {
  const Value value = arguments.required("value");
  arguments.done();
  if (value.is_undefined()) return List{};
  if (!value.dict()) throw Failure{"items: a dict is expected, not a " + type_name(value)};
  return items_of_dict(*value.dict());
}

Value replace(Arguments& arguments) {
  const MarkedText text = str_of(arguments.required("s"));
  const MarkedText from = str_of(arguments.required("old")), to = str_of(arguments.required("new"));
  const Value count = given(arguments, "count", None{});
  arguments.done();
  return replaced(text, from, to, count.is_none() ? -1 : integer_of(count, "count"));
}

Value default_value(Arguments& arguments) {
  Value value = arguments.required("value");
  Value otherwise = given(arguments, "default_value", Value::of_template(""));
  const bool also_false = is_true(given(arguments, "boolean", false));
  arguments.done();
  return value.is_undefined() || (also_false && !is_true(value)) ? otherwise : value;
}

// What map and the like go through: nothing where the value is false, whatever its type.
std::vector<Value> items_or_none(const Value& value) { return is_true(value) ? items_of(value) : std::vector<Value>(); }

// select, reject, selectattr, rejectattr.
template <bool by_attribute, bool wanted>
Value select(Arguments& arguments) {
  const std::vector<Value> all = items_or_none(arguments.required("value"));
  const Value attribute = by_attribute ? arguments.required("attribute") : Value();
  const auto name = arguments.next("test");
  Builtin* test = nullptr;
  if (name) {
    test = find_test(text_of(*name, "the name of a test").text);
    if (!test) throw Failure{"the test \"" + text_of(*name, "").text + "\" is not supported"};
  }
  const auto operand = name ? arguments.next("operand") : std::nullopt;
  arguments.done();
  List taken;
  for (const Value& item : all) {
    const Value judged = by_attribute ? attribute_of(item, attribute) : item;
    std::vector<Value> operands = {judged};
    if (operand) operands.push_back(*operand);
    Arguments call("test", std::move(operands), {});
    if ((test ? is_true(test(call)) : is_true(judged)) == wanted) taken.items.push_back(item);
  }
  return taken;
}

Value map(Arguments& arguments) {
  const std::vector<Value> all = items_or_none(arguments.required("value"));
  const auto filter = arguments.next("filter");
  const auto attribute = filter ? std::nullopt : arguments.next("attribute");
  const auto otherwise = filter ? std::nullopt : arguments.next("default");
  arguments.done();
  if (!filter && !attribute) throw Failure{"map: a filter or an attribute is expected"};
  Builtin* call = filter ? find_filter(text_of(*filter, "the name of a filter").text) : nullptr;
  if (filter && !call) throw Failure{"the filter \"" + text_of(*filter, "").text + "\" is not supported"};
  List mapped;
  for (const Value& item : all) {
    if (call) {
      Arguments one("filter", {item}, {});
      mapped.items.push_back(call(one));
    } else {
      Value found = attribute_of(item, *attribute);
      mapped.items.push_back(found.is_undefined() && otherwise ? *otherwise : found);
    }
  }
  return mapped;
}

Value list(Arguments& arguments) {
  const Value value = arguments.required("value");
  arguments.done();
  return List{items_of(value)};
}

template <bool last>
Value end_of(Arguments& arguments) {
  const std::vector<Value> items = items_of(arguments.required("seq"));
  arguments.done();
  if (items.empty()) return Undefined{last ? "the last item of nothing" : "the first item of nothing"};
  return last ? items.back() : items.front();
}

template <std::string (*change)(std::string_view)>
Value in_case(Arguments& arguments) {
  const MarkedText text = str_of(arguments.required("s"));
  arguments.done();
  return in_other_case(text, change);
}

Value capitalize(Arguments& arguments) {
  const MarkedText text = str_of(arguments.required("s"));
  arguments.done();
  return capitalized(text);
}

// Without regard to case where both are strings, as Jinja's sorting filters do it.
bool comes_before(const Value& a, const Value& b, bool case_sensitive) {
  if (case_sensitive || !a.text() || !b.text()) return is_less(a, b);
  return to_lower(a.text()->text) < to_lower(b.text()->text);
}

Value dictsort(Arguments& arguments) {
  const Value value = arguments.required("value");
  const bool case_sensitive = is_true(given(arguments, "case_sensitive", false));
  const std::string by = text_of(given(arguments, "by", Value::of_template("key")), "by").text;
  const bool reverse = is_true(given(arguments, "reverse", false));
  arguments.done();
  if (!value.dict()) throw Failure{"dictsort: a dict is expected, not a " + type_name(value)};
  if (by != "key" && by != "value") throw Failure{"dictsort: \"by\" must be \"key\" or \"value\""};
  auto entries = value.dict()->entries;
  const auto key = [&](const auto& entry) { return by == "key" ? entry.first : entry.second; };
  std::ranges::stable_sort(entries, [&](const auto& a, const auto& b) {
    return reverse ? comes_before(key(b), key(a), case_sensitive) : comes_before(key(a), key(b), case_sensitive);
  });
  return items_of_dict(Dict{std::move(entries)});
}

Value sort(Arguments& arguments) {
  List sorted{items_of(arguments.required("value"))};
  const bool reverse = is_true(given(arguments, "reverse", false));
  const bool case_sensitive = is_true(given(arguments, "case_sensitive", false));
  const Value attribute = given(arguments, "attribute", None{});
  arguments.done();
  const auto key = [&](const Value& item) { return attribute.is_none() ? item : attribute_of(item, attribute); };
  std::ranges::stable_sort(sorted.items, [&](const Value& a, const Value& b) {
    return reverse ? comes_before(key(b), key(a), case_sensitive) : comes_before(key(a), key(b), case_sensitive);
  });
  return sorted;
}

Value reverse(Arguments& arguments) {
  const Value value = arguments.required("value");
  arguments.done();
  std::vector<Value> items = items_of(value);
  std::ranges::reverse(items);
  if (value.text()) return joined_by(MarkedText(), items, true);
  return List{std::move(items)};
}

template <class Number>
Value number(Arguments& arguments) {
  const Value value = arguments.required("value");
  const Value otherwise = given(arguments, "default", Number{0});
  arguments.done();
  if (const double* real = value.real()) {
    if (std::is_same_v<Number, double>) return value;
    if (std::isfinite(*real) && std::abs(*real) >= 9e18) throw Failure{"a number grows beyond 63 bits"};
    return std::isfinite(*real) ? Value(static_cast<Number>(*real)) : otherwise;
  }
  if (value.is_number()) return static_cast<Number>(integer_of(value, ""));
  if (!value.text()) return otherwise;
  const MarkedText digits = *stripped(*value.text(), None{}, true, true).text();
  double real = 0;
  const char* const end = digits.text.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.text.data(), end, real);
  if (error != std::errc() || stop != end || !std::isfinite(real) || std::abs(real) > 9e18) return otherwise;
  return static_cast<Number>(real);
}

Value absolute(Arguments& arguments) {
  const Value value = arguments.required("x");
  arguments.done();
  if (const double* real = value.real()) return std::abs(*real);
  return std::abs(integer_of(value, "abs"));
}

Value indent(Arguments& arguments) {
  const MarkedText text = text_of(arguments.required("s"), "what is indented");
  const Value width = given(arguments, "width", std::int64_t{4});
  const bool first = is_true(given(arguments, "first", false));
  const bool blank = is_true(given(arguments, "blank", false));
  arguments.done();
  const MarkedText by = width.text() ? *width.text()
                                     : MarkedText(std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(
                                                                  integer_of(width, "width"), 0, 1000)),
                                                              ' '),
                                                  MarkedText::trusted);
  return indented(text, by, first, blank);
}

const std::unordered_map<std::string_view, Builtin*> filters = {{"trim", trim},
                                                                {"length", length},
                                                                {"count", length},
                                                                {"string", string},
                                                                {"safe", string},
                                                                {"tojson", tojson},
                                                                {"join", join},
                                                                {"items", items},
                                                                {"replace", replace},
                                                                {"default", default_value},
                                                                {"d", default_value},
                                                                {"select", select<false, true>},
                                                                {"reject", select<false, false>},
                                                                {"selectattr", select<true, true>},
                                                                {"rejectattr", select<true, false>},
                                                                {"map", map},
                                                                {"list", list},
                                                                {"first", end_of<false>},
                                                                {"last", end_of<true>},
                                                                {"upper", in_case<to_upper>},
                                                                {"lower", in_case<to_lower>},
                                                                {"capitalize", capitalize},
                                                                {"dictsort", dictsort},
                                                                {"sort", sort},
                                                                {"reverse", reverse},
                                                                {"int", number<std::int64_t>},
                                                                {"float", number<double>},
                                                                {"abs", absolute},
                                                                {"indent", indent}};

}  // namespace

Builtin* find_filter(std::string_view name) {
  const auto found = filters.find(name);
  return found == filters.end() ? nullptr : found->second;
}

}  // namespace millrace::jinja
