#pragma once
// A parsed template: expressions that give a value and statements that write text.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/text/jinja/arguments.hpp"
#include "models/text/jinja/library.hpp"

namespace millrace::jinja {

// Names and their values. A loop's round and a macro's call have a scope of their own inside another.
class Scope {
 public:
  // names: how many there will be, or more.
  explicit Scope(std::shared_ptr<const Scope> outer, std::size_t names = 2) : outer_(std::move(outer)) {
    names_.reserve(names);
  }

  void set(std::string name, Value value);
  Value find(const std::string& name) const;

 private:
  std::vector<std::pair<std::string, Value>> names_;  // a handful: looked through faster than hashed
  std::shared_ptr<const Scope> outer_;
};

// What goes along while a template is rendered.
struct Run {
  std::shared_ptr<Scope> scope;
  MarkedText out;
  int line = 1;
  int depth = 0;           // of macro calls
  std::int64_t steps = 0;  // nodes visited

  void step();  // fails after too many: a template ends
  void write(const MarkedText& text) { append(out, text); }
};

struct Expression {
  virtual ~Expression() = default;
  virtual Value evaluate(Run& run) const = 0;
  virtual void write(Run& run) const;  // what {{ expression }} does
  bool is_text = false;                // whenever it is anything at all: it can be written part by part
};
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Constant : Expression {
  explicit Constant(Value constant) : value(std::move(constant)) { is_text = value.text() != nullptr; }
  Value evaluate(Run&) const override { return value; }
  Value value;
};
struct Name : Expression {
  explicit Name(std::string variable) : name(std::move(variable)) {}
  Value evaluate(Run& run) const override;
  std::string name;
};
struct ListOf : Expression {
  Value evaluate(Run& run) const override;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
};
struct DictOf : Expression {
  Value evaluate(Run& run) const override;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Attribute : Expression {  // object.name
  Value evaluate(Run& run) const override;
  ExpressionPtr object;
  std::string name;
  Value key;               // the name as a value
  bool is_method = false;  // of some type
};
struct Item : Expression {  // object[key]
  Value evaluate(Run& run) const override;
  ExpressionPtr object, key;
};
struct Slice : Expression {  // object[begin:end:step]
  Value evaluate(Run& run) const override;
  ExpressionPtr object, begin, end, stride;  // null where left out
};
struct Operands {  // of a call, a filter or a test
  std::vector<ExpressionPtr> placed;
  std::vector<std::pair<std::string, ExpressionPtr>> named;

  Arguments evaluate(Run& run, const std::string& function, std::optional<Value> first = {}) const;
};
struct Call : Expression {
  Value evaluate(Run& run) const override;
  ExpressionPtr callee;
  Operands operands;
};
struct Filter : Expression {
  Value evaluate(Run& run) const override;
  ExpressionPtr input;
  std::string name;
  Builtin* filter = nullptr;
  Operands operands;
};
struct Test : Expression {
  Value evaluate(Run& run) const override;
  ExpressionPtr input;
  std::string name;
  Builtin* test = nullptr;
  Operands operands;
  bool negated = false;
};
struct Unary : Expression {  // not, -, +
  Value evaluate(Run& run) const override;
  std::string symbol;
  ExpressionPtr operand;
};
struct Binary : Expression {  // arithmetic, ~, and, or
  Value evaluate(Run& run) const override;
  void write(Run& run) const override;
  std::string symbol;
  ExpressionPtr left, right;
};
struct Comparison : Expression {  // a < b <= c, in, not in
  Value evaluate(Run& run) const override;
  ExpressionPtr first;
  std::vector<std::pair<std::string, ExpressionPtr>> rest;
};
struct Choice : Expression {  // a if condition else b
  Value evaluate(Run& run) const override;
  ExpressionPtr condition, then, otherwise;  // otherwise may be null
};

enum class Flow { on, leave_loop, next_round };

struct Statement {
  virtual ~Statement() = default;
  virtual Flow execute(Run& run) const = 0;
  int line = 0;
};
using StatementPtr = std::unique_ptr<const Statement>;

struct Block {
  std::vector<StatementPtr> statements;
  Flow execute(Run& run) const;
};

struct Target {  // what is assigned to: names, or one attribute of a namespace
  std::vector<std::string> names;
  std::string attribute;  // of names[0]; empty: none
  void assign(Run& run, const Value& value) const;
};

struct Text : Statement {
  Flow execute(Run& run) const override;
  MarkedText text;
};
struct Output : Statement {
  Flow execute(Run& run) const override;
  ExpressionPtr value;
};
struct If : Statement {
  Flow execute(Run& run) const override;
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
};
struct For : Statement {
  Flow execute(Run& run) const override;
  Target target;
  ExpressionPtr items, condition;  // condition may be null
  Block body, otherwise;
};
struct Set : Statement {
  Flow execute(Run& run) const override;
  Target target;
  ExpressionPtr value;  // null: what the body writes
  Block body;
};
struct Macro : Statement {
  Flow execute(Run& run) const override;
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with defaults, or null
  Block body;
};
struct Generation : Statement {  // {% generation %}: marks what the model writes; the text is the same
  Flow execute(Run& run) const override { return body.execute(run); }
  Block body;
};
struct Jump : Statement {  // break, continue
  Flow execute(Run&) const override { return flow; }
  Flow flow = Flow::on;
};

}  // namespace millrace::jinja
