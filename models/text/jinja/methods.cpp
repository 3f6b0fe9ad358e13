// Methods of Python's str, dict and list, items by key, and global functions.
#include <algorithm>
#include <ctime>
#include <set>
#include <unordered_map>

#include "models/text/jinja/library.hpp"
#include "models/text/jinja/strings.hpp"
#include "models/text/utf8.hpp"

namespace millrace::jinja {
namespace {

using Method = Value (*)(const Value& object, Arguments& arguments);

const MarkedText& text(const Value& object) { return *object.text(); }

template <bool left, bool right>
Value strip(const Value& object, Arguments& arguments) {
  const Value characters = arguments.next("chars").value_or(None{});
  arguments.done();
  return stripped(text(object), characters, left, right);
}

template <bool from_right>
Value split_method(const Value& object, Arguments& arguments) {
  const Value separator = arguments.next("sep").value_or(None{});
  const std::int64_t most = integer_of(arguments.next("maxsplit").value_or(std::int64_t{-1}), "maxsplit");
  arguments.done();
  return split(text(object), separator, most, from_right);
}

template <bool at_end>
Value begins_or_ends(const Value& object, Arguments& arguments) {
  const Value wanted = arguments.required("prefix");
  arguments.done();
  const auto fits = [&](const Value& part) {
    const std::string& affix = text_of(part, "what a string may begin or end with").text;
    return at_end ? text(object).text.ends_with(affix) : text(object).text.starts_with(affix);
  };
  if (wanted.list() && wanted.list()->is_tuple) return std::ranges::any_of(wanted.list()->items, fits);
  return fits(wanted);
}

template <std::string (*change)(std::string_view)>
Value in_case(const Value& object, Arguments& arguments) {
  arguments.done();
  return in_other_case(text(object), change);
}

const std::unordered_map<std::string_view, Method> text_methods = {
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"startswith", begins_or_ends<false>},
    {"endswith", begins_or_ends<true>},
    {"upper", in_case<to_upper>},
    {"lower", in_case<to_lower>},
    {"capitalize",
     [](const Value& object, Arguments& arguments) {
       arguments.done();
       return capitalized(text(object));
     }},
    {"splitlines",
     [](const Value& object, Arguments& arguments) {
       arguments.done();
       return lines_of(text(object));
     }},
    {"replace",
     [](const Value& object, Arguments& arguments) {
       const Value from = arguments.required("old"), to = arguments.required("new");
       const std::int64_t most = integer_of(arguments.next("count").value_or(std::int64_t{-1}), "count");
       arguments.done();
       return replaced(text(object), text_of(from, "what is replaced"), text_of(to, "what replaces"), most);
     }},
    {"join",
     [](const Value& object, Arguments& arguments) {
       const Value items = arguments.required("iterable");
       arguments.done();
       return joined_by(text(object), items_of(items), false);
     }},
    {"find",
     [](const Value& object, Arguments& arguments) -> Value {
       const Value part = arguments.required("sub");
       arguments.done();
       const std::size_t found = text(object).text.find(text_of(part, "what is looked for").text);
       if (found == std::string::npos) return std::int64_t{-1};
       return static_cast<std::int64_t>(items_of(text(object).substr(0, found)).size());
     }},
    {"count", [](const Value& object, Arguments& arguments) -> Value {
       const Value part = arguments.required("sub");
       arguments.done();
       const Value parts = split(text(object), part, -1, false);
       return static_cast<std::int64_t>(parts.list()->items.size()) - 1;
     }}};

const Dict& dict(const Value& object) { return *object.dict(); }

const std::unordered_map<std::string_view, Method> dict_methods = {
    {"get",
     [](const Value& object, Arguments& arguments) -> Value {
       const Value key = arguments.required("key");
       const Value otherwise = arguments.next("default").value_or(None{});
       arguments.done();
       const Value* found = dict(object).find(key);
       return found ? *found : otherwise;
     }},
    {"items",
     [](const Value& object, Arguments& arguments) -> Value {
       arguments.done();
       return items_of_dict(dict(object));
     }},
    {"keys",
     [](const Value& object, Arguments& arguments) -> Value {
       arguments.done();
       return List{items_of(object)};
     }},
    {"values", [](const Value& object, Arguments& arguments) -> Value {
       arguments.done();
       List values;
       for (const auto& entry : dict(object).entries) values.items.push_back(entry.second);
       return values;
     }}};

const std::unordered_map<std::string_view, Method> list_methods = {
    {"count",
     [](const Value& object, Arguments& arguments) -> Value {
       const Value item = arguments.required("value");
       arguments.done();
       return static_cast<std::int64_t>(
           std::ranges::count_if(object.list()->items, [&](const Value& other) { return are_equal(item, other); }));
     }},
    {"index", [](const Value& object, Arguments& arguments) -> Value {
       const Value item = arguments.required("value");
       arguments.done();
       const auto& items = object.list()->items;
       const auto found = std::ranges::find_if(items, [&](const Value& other) { return are_equal(item, other); });
       if (found == items.end()) throw Failure{"the value is not in the list"};
       return static_cast<std::int64_t>(found - items.begin());
     }}};

// What Python's types have besides: to call one is an error, not an undefined name.
const std::set<std::string_view> other_text_methods = {
    "casefold", "center",  "encode",       "expandtabs", "format",  "format_map", "index",        "isalnum",
    "isalpha",  "isascii", "isdecimal",    "isdigit",    "islower", "isnumeric",  "isprintable",  "isspace",
    "istitle",  "isupper", "isidentifier", "ljust",      "rjust",   "partition",  "removeprefix", "removesuffix",
    "rfind",    "rindex",  "rpartition",   "swapcase",   "title",   "translate",  "zfill",        "maketrans"};
const std::set<std::string_view> other_dict_methods = {"clear",   "copy",       "fromkeys", "pop",
                                                       "popitem", "setdefault", "update"};
const std::set<std::string_view> other_list_methods = {"append", "clear",  "copy",    "extend", "insert",
                                                       "pop",    "remove", "reverse", "sort"};

Value bound(const Value& object, const std::string& name, const std::unordered_map<std::string_view, Method>& methods,
            const std::set<std::string_view>& others) {
  const auto found = methods.find(name);
  if (found == methods.end() && !others.contains(name)) return Undefined{name};
  const std::string full_name = type_name(object) + '.' + name;
  if (found != methods.end()) {
    const Method method = found->second;
    return Function{full_name, [object, method](Arguments& arguments) { return method(object, arguments); }};
  }
  return Function{full_name, [full_name](Arguments&) -> Value { throw Failure{full_name + "() is not supported"}; }};
}

Value loop_attribute(const Loop& loop, const std::string& name) {
  const auto size = static_cast<std::int64_t>(loop.items->size()), index = static_cast<std::int64_t>(loop.index0);
  if (name == "index0") return index;
  if (name == "index") return index + 1;
  if (name == "revindex0") return size - index - 1;
  if (name == "revindex") return size - index;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == size;
  if (name == "length") return size;
  if (name == "previtem") return index > 0 ? (*loop.items)[loop.index0 - 1] : Value(Undefined{"loop.previtem"});
  if (name == "nextitem") return index + 1 < size ? (*loop.items)[loop.index0 + 1] : Value(Undefined{"loop.nextitem"});
  throw Failure{"loop." + name + " is not supported"};
}

Value element(const std::vector<Value>& items, const Value& key) {
  std::int64_t at = integer_of(key, "the place of an item");
  if (at < 0) at += static_cast<std::int64_t>(items.size());
  if (at < 0 || at >= static_cast<std::int64_t>(items.size())) return Undefined{"item " + std::to_string(at)};
  return items[static_cast<std::size_t>(at)];
}

Value range(Arguments& arguments) {
  const std::int64_t a = integer_of(arguments.required("start"), "range");
  const auto b = arguments.next("stop"), by = arguments.next("step");
  arguments.done();
  const std::int64_t begin = b ? a : 0, end = b ? integer_of(*b, "range") : a, step = by ? integer_of(*by, "range") : 1;
  if (step == 0) throw Failure{"range: the step must not be 0"};
  List numbers;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (numbers.items.size() >= 100'000) throw Failure{"range: more than 100000 numbers"};
    numbers.items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return numbers;
}

Value make_namespace(Arguments& arguments) {
  Namespace space;
  for (auto& [name, value] : arguments.take_named()) space.set(name, std::move(value));
  arguments.done();
  return space;
}

Value make_dict(Arguments& arguments) {
  Dict made;
  for (auto& [name, value] : arguments.take_named())
    made.entries.emplace_back(Value::of_template(name), std::move(value));
  arguments.done();
  return made;
}

Value raise_exception(Arguments& arguments) { throw Failure{str_of(arguments.required("message")).text}; }

Value strftime_now(Arguments& arguments) {
  const std::string format = text_of(arguments.required("format"), "the format").text;
  arguments.done();
  if (format.empty()) return Value::of_template("");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::string text(256 + format.size(), '\0');
  text.resize(std::strftime(text.data(), text.size(), format.c_str(), &local));
  return Value::of_template(text);
}

}  // namespace

Value method_of(const Value& object, const std::string& name) {
  if (object.text()) return bound(object, name, text_methods, other_text_methods);
  if (object.dict()) return bound(object, name, dict_methods, other_dict_methods);
  static const std::set<std::string_view> none;
  if (object.list()) return bound(object, name, list_methods, object.list()->is_tuple ? none : other_list_methods);
  return Undefined{name};
}

bool is_method_name(std::string_view name) {
  const auto has = [&](const auto&... names) { return (names.contains(name) || ...); };
  return has(text_methods, dict_methods, list_methods, other_text_methods, other_dict_methods, other_list_methods);
}

Value item_of(const Value& object, const Value& key) {
  const auto nothing = [&] { return Undefined{key.text() ? key.text()->text : type_name(key)}; };
  if (const auto* undefined = std::get_if<Undefined>(&object.any()))
    throw Failure{"'" + undefined->name + "' is undefined"};
  if (const auto* entries = object.dict()) {
    const Value* found = entries->find(key);
    return found ? *found : Value(nothing());
  }
  if (key.text()) {
    const std::string& name = key.text()->text;
    if (const auto* loop = object.loop()) return loop_attribute(*loop, name);
    if (const auto* space = object.space()) {
      const auto found = space->attributes.find(name);
      return found == space->attributes.end() ? Value(nothing()) : found->second;
    }
    return nothing();
  }
  if (key.is_number() && !key.real()) {
    if (object.list()) return element(object.list()->items, key);
    if (object.text()) return element(items_of(object), key);
  }
  return nothing();
}

const std::vector<std::pair<std::string, Value>>& global_functions() {
  static const std::vector<std::pair<std::string, Value>> all = {
      {"range", Function{"range", range}},
      {"namespace", Function{"namespace", make_namespace}},
      {"dict", Function{"dict", make_dict}},
      {"raise_exception", Function{"raise_exception", raise_exception}},
      {"strftime_now", Function{"strftime_now", strftime_now}}};
  return all;
}

}  // namespace millrace::jinja
