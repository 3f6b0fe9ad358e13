#include "models/text/jinja/nodes.hpp"

namespace millrace::jinja {
namespace {

constexpr int deepest_call = 100;

// Where a round or a call begins and ends.
class InnerScope {
 public:
  InnerScope(Run& run, std::shared_ptr<const Scope> outer) : run_(run), before_(run.scope) {
    run.scope = std::make_shared<Scope>(std::move(outer));
  }
  ~InnerScope() { run_.scope = before_; }

 private:
  Run& run_;
  std::shared_ptr<Scope> before_;
};

// A list's items are not copied.
std::shared_ptr<const std::vector<Value>> shared_items_of(const Value& value) {
  if (const auto* list = std::get_if<std::shared_ptr<const List>>(&value.any())) return {*list, &(*list)->items};
  return std::make_shared<const std::vector<Value>>(items_of(value));
}

// What `body` writes, instead of writing it.
MarkedText captured(Run& run, const Block& body) {
  MarkedText before = std::exchange(run.out, {});
  body.execute(run);
  return std::exchange(run.out, std::move(before));
}

}  // namespace

Flow Block::execute(Run& run) const {
  for (const StatementPtr& statement : statements) {
    run.step();
    run.line = statement->line;
    if (const Flow flow = statement->execute(run); flow != Flow::on) return flow;
  }
  return Flow::on;
}

void Target::assign(Run& run, const Value& value) const {
  if (!attribute.empty()) {
    Namespace* space = run.scope->find(names[0]).space();
    if (!space) throw Failure{"'" + names[0] + "' is no namespace: its attributes cannot be set"};
    space->set(attribute, value);
  } else if (names.size() == 1) {
    run.scope->set(names[0], value);
  } else {
    const std::vector<Value> items = items_of(value);
    if (items.size() != names.size()) {
      throw Failure{std::to_string(items.size()) + " values do not go into " + std::to_string(names.size()) + " names"};
    }
    for (std::size_t i = 0; i < names.size(); ++i) run.scope->set(names[i], items[i]);
  }
}

Flow Text::execute(Run& run) const {
  run.write(text);
  return Flow::on;
}

Flow Output::execute(Run& run) const {
  value->write(run);
  return Flow::on;
}

Flow If::execute(Run& run) const {
  for (const auto& [condition, body] : branches) {
    if (is_true(condition->evaluate(run))) return body.execute(run);
  }
  return otherwise.execute(run);
}

Flow For::execute(Run& run) const {
  auto taken = shared_items_of(items->evaluate(run));
  if (condition) {
    auto fitting = std::make_shared<std::vector<Value>>();
    for (const Value& item : *taken) {
      run.step();
      const InnerScope inner(run, run.scope);
      target.assign(run, item);
      if (is_true(condition->evaluate(run))) fitting->push_back(item);
    }
    taken = std::move(fitting);
  }
  if (taken->empty()) return otherwise.execute(run);
  for (std::size_t i = 0; i < taken->size(); ++i) {
    run.step();
    const InnerScope inner(run, run.scope);
    run.scope->set("loop", Loop{taken, i});
    target.assign(run, (*taken)[i]);
    if (body.execute(run) == Flow::leave_loop) break;
  }
  return Flow::on;
}

Flow Set::execute(Run& run) const {
  target.assign(run, value ? value->evaluate(run) : Value(captured(run, body)));
  return Flow::on;
}

Flow Macro::execute(Run& run) const {
  // A macro sees the names around its definition, as they are when it is called. The scope must not own itself.
  const std::weak_ptr<Scope> around = run.scope;
  const auto call = [this, &run, around](Arguments& arguments) -> Value {
    std::vector<Value> values;
    for (const auto& [parameter, otherwise] : parameters) {
      auto given = arguments.next(parameter);
      values.push_back(given ? *given : otherwise ? otherwise->evaluate(run) : Value(Undefined{parameter}));
    }
    arguments.done();
    if (run.depth >= deepest_call) throw Failure{"macros call each other too deeply"};
    ++run.depth;
    const InnerScope inner(run, around.lock());
    for (std::size_t i = 0; i < values.size(); ++i) run.scope->set(parameters[i].first, std::move(values[i]));
    const int called_from = run.line;
    MarkedText text = captured(run, body);
    run.line = called_from;
    --run.depth;
    return text;
  };
  run.scope->set(name, Function{"macro \"" + name + "\"", call});
  return Flow::on;
}

}  // namespace millrace::jinja
