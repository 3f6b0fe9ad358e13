#include "models/text/jinja/nodes.hpp"

#include <algorithm>
#include <cmath>

namespace millrace::jinja {
namespace {

constexpr std::int64_t most_steps = 20'000'000;

void refuse_undefined(const Value& value) {
  if (const auto* nothing = std::get_if<Undefined>(&value.any())) throw Failure{"'" + nothing->name + "' is undefined"};
}

Value arithmetic(const std::string& symbol, const Value& a, const Value& b) {
  const auto* i = std::get_if<std::int64_t>(&a.any());
  const auto* j = std::get_if<std::int64_t>(&b.any());
  if (!a.is_number() || !b.is_number() || a.truth() || b.truth()) {
    throw Failure{"\"" + symbol + "\" is not supported between a " + type_name(a) + " and a " + type_name(b)};
  }
  if (i && j && symbol != "/") {
    std::int64_t result = 0;
    bool overflow = false;
    if (symbol == "+") overflow = __builtin_add_overflow(*i, *j, &result);
    if (symbol == "-") overflow = __builtin_sub_overflow(*i, *j, &result);
    if (symbol == "*") overflow = __builtin_mul_overflow(*i, *j, &result);
    if (symbol == "//" || symbol == "%") {
      if (*j == 0 || (*i == INT64_MIN && *j == -1)) throw Failure{"a division by zero or beyond 63 bits"};
      const std::int64_t rest = *i % *j, corrected = rest != 0 && (rest < 0) != (*j < 0) ? rest + *j : rest;
      result = symbol == "%" ? corrected : (*i - corrected) / *j;
    }
    if (symbol == "**") {
      if (*j < 0) throw Failure{"negative exponents are not supported"};
      result = 1;
      for (std::int64_t n = 0; n < *j && !overflow; ++n) {
        overflow = __builtin_mul_overflow(result, *i, &result);
        if (n > 64 && *i >= -1 && *i <= 1) break;
      }
      if (*i == -1 && *j > 64) result = *j % 2 == 0 ? 1 : -1;
    }
    if (overflow) throw Failure{"a number grows beyond 63 bits"};
    return result;
  }
  const double x = i ? static_cast<double>(*i) : *a.real(), y = j ? static_cast<double>(*j) : *b.real();
  if (symbol == "+") return x + y;
  if (symbol == "-") return x - y;
  if (symbol == "*") return x * y;
  if (symbol == "**") return std::pow(x, y);
  if (y == 0) throw Failure{"a division by zero"};
  if (symbol == "/") return x / y;
  const double rest = std::fmod(x, y), corrected = rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  return symbol == "%" ? corrected : (x - corrected) / y;
}

Value sum(Value a, const Value& b) {
  if (a.text() && b.text()) {
    a.append(*b.text());
    return a;
  }
  if (a.list() && b.list() && a.list()->is_tuple == b.list()->is_tuple) {
    List both = *a.list();
    both.items.insert(both.items.end(), b.list()->items.begin(), b.list()->items.end());
    return both;
  }
  return arithmetic("+", a, b);
}

bool contains(const Value& container, const Value& item) {
  if (container.text())
    return container.text()->text.find(text_of(item, "what a string may contain").text) != std::string::npos;
  if (container.dict()) return container.dict()->find(item) != nullptr;
  return std::ranges::any_of(items_of(container), [&](const Value& other) { return are_equal(other, item); });
}

bool compare(const std::string& symbol, const Value& a, const Value& b) {
  if (symbol == "==") return are_equal(a, b);
  if (symbol == "!=") return !are_equal(a, b);
  if (symbol == "in") return contains(b, a);
  if (symbol == "not in") return !contains(b, a);
  if (symbol == "<") return is_less(a, b);
  if (symbol == ">") return is_less(b, a);
  if (symbol == "<=") return is_less(a, b) || are_equal(a, b);
  return is_less(b, a) || are_equal(a, b);
}

}  // namespace

void Scope::set(std::string name, Value value) {
  const auto found = std::ranges::find(names_, name, &std::pair<std::string, Value>::first);
  if (found == names_.end()) {
    names_.emplace_back(std::move(name), std::move(value));
  } else {
    found->second = std::move(value);
  }
}

Value Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope; scope = scope->outer_.get()) {
    for (const auto& [known, value] : scope->names_) {
      if (known == name) return value;
    }
  }
  return Undefined{name};
}

void Run::step() {
  if (++steps > most_steps) throw Failure{"the template takes too long"};
}

void Expression::write(Run& run) const {
  const Value written = evaluate(run);
  run.write(written.text() ? *written.text() : str_of(written));
}

Value Name::evaluate(Run& run) const {
  run.step();
  return run.scope->find(name);
}

Value ListOf::evaluate(Run& run) const {
  List list;
  list.is_tuple = is_tuple;
  for (const ExpressionPtr& item : items) list.items.push_back(item->evaluate(run));
  return list;
}

Value DictOf::evaluate(Run& run) const {
  Dict dict;
  for (const auto& [key, item] : entries) {
    Value name = key->evaluate(run), value = item->evaluate(run);
    if (dict.find(name)) throw Failure{"a dict has one of its keys twice"};
    dict.entries.emplace_back(std::move(name), std::move(value));
  }
  return dict;
}

Value Attribute::evaluate(Run& run) const {
  run.step();
  const Value owner = object->evaluate(run);
  refuse_undefined(owner);
  if (is_method) {
    if (const Value method = method_of(owner, name); !method.is_undefined()) return method;
  }
  return item_of(owner, key);
}

Value Item::evaluate(Run& run) const {
  run.step();
  const Value owner = object->evaluate(run);
  refuse_undefined(owner);
  const Value name = key->evaluate(run);
  Value item = item_of(owner, name);
  return item.is_undefined() && name.text() && !owner.dict() ? method_of(owner, name.text()->text) : item;
}

Value Slice::evaluate(Run& run) const {
  const Value whole = object->evaluate(run);
  refuse_undefined(whole);
  if (!whole.list() && !whole.text()) throw Failure{"a " + type_name(whole) + " has no slices"};
  const std::vector<Value> items = items_of(whole);
  const auto size = static_cast<std::int64_t>(items.size());
  const auto number = [&](const ExpressionPtr& part) -> std::optional<std::int64_t> {
    if (!part) return std::nullopt;
    const Value value = part->evaluate(run);
    if (value.is_none()) return std::nullopt;
    return integer_of(value, "a slice's bound");
  };
  const std::int64_t by = number(stride).value_or(1);
  if (by == 0) throw Failure{"a slice's step must not be 0"};
  const auto place = [&](std::optional<std::int64_t> given, std::int64_t otherwise) {
    if (!given) return otherwise;
    const std::int64_t at = *given < 0 ? std::max(*given, -size - 1) + size : *given;
    return by > 0 ? std::clamp<std::int64_t>(at, 0, size) : std::clamp<std::int64_t>(at, -1, size - 1);
  };
  const std::int64_t from = place(number(begin), by > 0 ? 0 : size - 1), to = place(number(end), by > 0 ? size : -1);
  List part;
  part.is_tuple = whole.list() && whole.list()->is_tuple;
  MarkedText text;
  for (std::int64_t i = from; by > 0 ? i < to : i > to; i += std::clamp<std::int64_t>(by, -size - 1, size + 1)) {
    if (whole.list())
      part.items.push_back(items[static_cast<std::size_t>(i)]);
    else
      text += *items[static_cast<std::size_t>(i)].text();
  }
  return whole.list() ? Value(part) : Value(text);
}

Arguments Operands::evaluate(Run& run, const std::string& function, std::optional<Value> first) const {
  std::vector<Value> values;
  if (first) values.push_back(std::move(*first));
  for (const ExpressionPtr& operand : placed) values.push_back(operand->evaluate(run));
  std::vector<std::pair<std::string, Value>> by_name;
  for (const auto& [name, operand] : named) by_name.emplace_back(name, operand->evaluate(run));
  return {function, std::move(values), std::move(by_name)};
}

Value Call::evaluate(Run& run) const {
  run.step();
  const Value function = callee->evaluate(run);
  refuse_undefined(function);
  if (!function.function()) throw Failure{"a " + type_name(function) + " cannot be called"};
  Arguments arguments = operands.evaluate(run, function.function()->name);
  return function.function()->call(arguments);
}

Value Filter::evaluate(Run& run) const {
  run.step();
  Arguments arguments = operands.evaluate(run, "filter \"" + name + "\"", input->evaluate(run));
  return filter(arguments);
}

Value Test::evaluate(Run& run) const {
  run.step();
  Arguments arguments = operands.evaluate(run, "test \"" + name + "\"", input->evaluate(run));
  return is_true(test(arguments)) != negated;
}

Value Unary::evaluate(Run& run) const {
  const Value value = operand->evaluate(run);
  if (symbol == "not") return !is_true(value);
  return symbol == "-" ? arithmetic("-", std::int64_t{0}, value) : arithmetic("+", std::int64_t{0}, value);
}

Value Binary::evaluate(Run& run) const {
  run.step();
  Value a = left->evaluate(run);
  if (symbol == "and") return is_true(a) ? right->evaluate(run) : a;
  if (symbol == "or") return is_true(a) ? a : right->evaluate(run);
  const Value b = right->evaluate(run);
  if (symbol == "~") return joined(str_of(a), str_of(b));
  refuse_undefined(a);
  refuse_undefined(b);
  return symbol == "+" ? sum(std::move(a), b) : arithmetic(symbol, a, b);
}

void Binary::write(Run& run) const {
  if (!is_text) return Expression::write(run);
  run.step();
  left->write(run);
  const Value b = right->evaluate(run);
  refuse_undefined(b);
  if (!b.text()) arithmetic(symbol, Value::of_template(""), b);  // refuses the two
  run.write(*b.text());
}

Value Comparison::evaluate(Run& run) const {
  run.step();
  Value left = first->evaluate(run);
  for (const auto& [symbol, operand] : rest) {
    Value right = operand->evaluate(run);
    if (!compare(symbol, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Choice::evaluate(Run& run) const {
  if (is_true(condition->evaluate(run))) return then->evaluate(run);
  return otherwise ? otherwise->evaluate(run) : Value(Undefined{"the inline if"});
}

}  // namespace millrace::jinja
