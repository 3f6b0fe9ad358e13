#include "models/text/jinja/value.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "models/text/utf8.hpp"

namespace millrace::jinja {
namespace {

constexpr std::size_t longest_text = 64 << 20;

constexpr int deepest = 200;

int one_deeper(int depth) {
  if (depth >= deepest) throw Failure{"values are nested too deeply"};
  return depth + 1;
}

double number_of(const Value& value) {
  if (const bool* truth = value.truth()) return *truth;
  if (const auto* integer = std::get_if<std::int64_t>(&value.any())) return static_cast<double>(*integer);
  return *value.real();
}

bool are_equal_lists(const List& a, const List& b) {
  return a.is_tuple == b.is_tuple && std::ranges::equal(a.items, b.items, are_equal);
}

bool are_equal_dicts(const Dict& a, const Dict& b) {
  return a.entries.size() == b.entries.size() && std::ranges::all_of(a.entries, [&](const auto& entry) {
           const Value* other = b.find(entry.first);
           return other && are_equal(entry.second, *other);
         });
}

}  // namespace

int Value::depth() const { return list() ? list()->depth : dict() ? dict()->depth : space() ? space()->depth : 0; }

Value::Value(List made) {
  int most = 0;
  for (const Value& item : made.items) most = std::max(most, item.depth());
  made.depth = one_deeper(most);
  any_ = std::make_shared<const List>(std::move(made));
}

Value::Value(Dict made) {
  int most = 0;
  for (const auto& entry : made.entries) most = std::max({most, entry.first.depth(), entry.second.depth()});
  made.depth = one_deeper(most);
  any_ = std::make_shared<const Dict>(std::move(made));
}

void Namespace::set(const std::string& name, Value value) {
  depth = std::max(depth, one_deeper(value.depth()));
  attributes[name] = std::move(value);
}

void Value::append(const MarkedText& more) {
  Text& held = std::get<Text>(any_);
  if (held.use_count() > 1) {
    *this = joined(*held, more);
  } else {
    jinja::append(const_cast<MarkedText&>(*held), more);  // made as one that may change
  }
}

const Value* Dict::find(const Value& key) const {
  const auto found = std::ranges::find_if(entries, [&](const auto& entry) { return are_equal(entry.first, key); });
  return found == entries.end() ? nullptr : &found->second;
}

namespace {

Value value_of(const nlohmann::ordered_json& json, char mark, int depth) {
  if (depth > deepest) throw Failure{"values are nested too deeply"};
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean: return json.get<bool>();
    case nlohmann::ordered_json::value_t::number_integer: return json.get<std::int64_t>();
    case nlohmann::ordered_json::value_t::number_unsigned:
      if (!std::in_range<std::int64_t>(json.get<std::uint64_t>()))
        throw Failure{"the number " + json.dump() + " is too large"};
      return json.get<std::int64_t>();
    case nlohmann::ordered_json::value_t::number_float: return json.get<double>();
    case nlohmann::ordered_json::value_t::string: return MarkedText(json.get<std::string>(), mark);
    case nlohmann::ordered_json::value_t::array: {
      List list;
      for (const auto& item : json) list.items.push_back(value_of(item, mark, depth + 1));
      return list;
    }
    case nlohmann::ordered_json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items())
        dict.entries.emplace_back(MarkedText(key, mark), value_of(item, mark, depth + 1));
      return dict;
    }
    default: return None{};
  }
}

}  // namespace

Value value_of(const nlohmann::ordered_json& json, char mark) { return value_of(json, mark, 0); }

std::string type_name(const Value& value) {
  static const char* names[] = {"undefined", "NoneType", "bool",      "int",  "float",   "str",
                                "list",      "dict",     "namespace", "loop", "function"};
  if (value.list() && value.list()->is_tuple) return "tuple";
  return names[value.any().index()];
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_number()) return number_of(value) != 0;
  if (const auto* text = value.text()) return text->size() > 0;
  if (const auto* list = value.list()) return !list->items.empty();
  if (const auto* dict = value.dict()) return !dict->entries.empty();
  return true;
}

bool are_equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    const auto* i = std::get_if<std::int64_t>(&a.any());
    const auto* j = std::get_if<std::int64_t>(&b.any());
    return i && j ? *i == *j : number_of(a) == number_of(b);
  }
  if (a.any().index() != b.any().index()) return false;
  if (a.is_undefined() || a.is_none()) return true;
  if (const auto* text = a.text()) return text->text == b.text()->text;
  if (const auto* list = a.list()) return are_equal_lists(*list, *b.list());
  if (const auto* dict = a.dict()) return are_equal_dicts(*dict, *b.dict());
  return a.space() && a.space() == b.space();
}

bool is_less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return number_of(a) < number_of(b);
  if (a.text() && b.text()) return a.text()->text < b.text()->text;
  throw Failure{"a " + type_name(a) + " and a " + type_name(b) + " cannot be put in order"};
}

std::int64_t integer_of(const Value& value, std::string_view what) {
  if (const auto* integer = std::get_if<std::int64_t>(&value.any())) return *integer;
  if (const bool* truth = value.truth()) return *truth ? 1 : 0;
  throw Failure{std::string(what) + " must be an integer, it is a " + type_name(value)};
}

const MarkedText& text_of(const Value& value, std::string_view what) {
  if (const auto* text = value.text()) return *text;
  throw Failure{std::string(what) + " must be a string, it is a " + type_name(value)};
}

std::vector<Value> items_of(const Value& value) {
  if (value.is_undefined()) return {};
  if (const auto* list = value.list()) return list->items;
  std::vector<Value> items;
  if (const auto* dict = value.dict()) {
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  } else if (const auto* text = value.text()) {
    for (std::size_t at = 0; at < text->size();) {
      const std::size_t size = character_at(text->text, at).size;
      items.emplace_back(text->substr(at, size));
      at += size;
    }
  } else {
    throw Failure{"a " + type_name(value) + " has no items to go through"};
  }
  return items;
}

void append(MarkedText& text, const MarkedText& more) {
  if (text.size() + more.size() > longest_text) throw Failure{"the text grows beyond 64 MiB"};
  text += more;
}

MarkedText joined(const MarkedText& a, const MarkedText& b) {
  MarkedText both = a;
  append(both, b);
  return both;
}

}  // namespace millrace::jinja
