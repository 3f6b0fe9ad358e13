#include "models/text/jinja/template.hpp"

#include "models/text/jinja/parser.hpp"

namespace millrace::jinja {

namespace {

std::shared_ptr<Scope> scope_of(std::vector<std::pair<std::string, Value>> variables,
                                const std::shared_ptr<const Scope>& outer) {
  auto scope = std::make_shared<Scope>(outer, variables.size());
  for (auto& [name, value] : variables) scope->set(std::move(name), std::move(value));
  return scope;
}

}  // namespace

Template::Template(std::unique_ptr<const Block> body) : body_(std::move(body)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

expected<Template> Template::parse(std::string_view source) {
  try {
    return Template(std::make_unique<const Block>(parsed(source)));
  } catch (const Failure& failure) {
    return fail(failure.message);
  }
}

expected<MarkedText> Template::render(std::vector<std::pair<std::string, Value>> variables) const {
  Run run;
  // What the conversation brings, and what the template sets, hides Jinja's own functions.
  static const auto functions = scope_of(global_functions(), nullptr);
  run.scope = scope_of(std::move(variables), functions);
  try {
    body_->execute(run);
  } catch (const Failure& failure) {
    return fail("line " + std::to_string(run.line) + ": " + failure.message);
  }
  return std::move(run.out);
}

}  // namespace millrace::jinja
