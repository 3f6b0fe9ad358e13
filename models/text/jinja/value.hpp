#pragma once
// What a Jinja expression can be, with the meaning that Python gives it: truth, equality, str() and json.dumps().
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/text/marked_text.hpp"

namespace millrace::jinja {

// What is wrong with a template or with what it does to a conversation. Thrown inside models/text/jinja only: Template
// turns it into an error value.
struct Failure {
  std::string message;
};

class Value;
class Arguments;

struct Undefined {
  std::string name;  // what was looked for
};
struct None {};
struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  int depth = 0;  // of lists and dicts inside each other; set by Value
};
struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in the order of insertion
  int depth = 0;
  const Value* find(const Value& key) const;
};
struct Namespace {
  std::map<std::string, Value> attributes;
  int depth = 0;

  void set(const std::string& name, Value value);
};
struct Loop {  // the variable `loop` of one iteration
  std::shared_ptr<const std::vector<Value>> items;
  std::size_t index0 = 0;
  std::size_t depth0 = 0;
};
struct Function {
  std::string name;
  std::function<Value(Arguments&)> call;
};

class Value {
 public:
  using Text = std::shared_ptr<const MarkedText>;
  using Any = std::variant<Undefined, None, bool, std::int64_t, double, Text, std::shared_ptr<const List>,
                           std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<const Loop>,
                           std::shared_ptr<const Function>>;

  Value() = default;  // undefined
  Value(Undefined nothing) : any_(std::move(nothing)) {}
  Value(None none) : any_(none) {}
  Value(bool truth) : any_(truth) {}
  Value(std::int64_t number) : any_(number) {}
  Value(double number) : any_(number) {}
  Value(MarkedText text) : any_(std::make_shared<MarkedText>(std::move(text))) {}
  Value(List list);  // these two fail where values are nested too deeply: destructors and comparisons recurse
  Value(Dict dict);
  Value(Namespace space) : any_(std::make_shared<Namespace>(std::move(space))) {}
  Value(Loop loop) : any_(std::make_shared<const Loop>(std::move(loop))) {}
  Value(Function function) : any_(std::make_shared<const Function>(std::move(function))) {}
  Value(const char*) = delete;  // would become a bool

  static Value of_template(std::string text) { return MarkedText(std::move(text), MarkedText::trusted); }

  bool is_undefined() const { return std::holds_alternative<Undefined>(any_); }
  bool is_none() const { return std::holds_alternative<None>(any_); }
  bool is_number() const { return any_.index() >= 2 && any_.index() <= 4; }  // a truth value is one, as in Python
  const bool* truth() const { return std::get_if<bool>(&any_); }
  const double* real() const { return std::get_if<double>(&any_); }
  const MarkedText* text() const { return get<const MarkedText>(); }
  const List* list() const { return get<const List>(); }
  const Dict* dict() const { return get<const Dict>(); }
  Namespace* space() const { return get<Namespace>(); }
  const Loop* loop() const { return get<const Loop>(); }
  const Function* function() const { return get<const Function>(); }
  const Any& any() const { return any_; }
  // Adds to a text: to itself where nobody else holds it.
  void append(const MarkedText& more);
  int depth() const;

 private:
  template <class T>
  T* get() const {
    const auto* held = std::get_if<std::shared_ptr<T>>(&any_);
    return held ? held->get() : nullptr;
  }
  Any any_;
};

// Strings of a conversation are marked as quoted; `mark` is trusted for what the model's own files say.
Value value_of(const nlohmann::ordered_json& json, char mark);

std::string type_name(const Value& value);  // as an error calls it: "str", "dict", ...
bool is_true(const Value& value);
bool are_equal(const Value& a, const Value& b);
bool is_less(const Value& a, const Value& b);                        // fails for what Python cannot order
std::int64_t integer_of(const Value& value, std::string_view what);  // fails if it is none
const MarkedText& text_of(const Value& value, std::string_view what);
std::vector<Value> items_of(const Value& value);  // what iteration gives; fails for what has no items

// str(value): what {{ value }} writes. Undefined writes nothing.
MarkedText str_of(const Value& value);

struct JsonStyle {
  bool ascii = false;
  bool sorted = false;
  std::int64_t indent = -1;  // -1: one line
  std::string item_separator = ", ", key_separator = ": ";
};
// json.dumps(value). All of it is marked as quoted.
Value json_of(const Value& value, const JsonStyle& style);

// These fail above 64 MiB: a template must not fill the memory.
void append(MarkedText& text, const MarkedText& more);
MarkedText joined(const MarkedText& a, const MarkedText& b);

}  // namespace millrace::jinja
