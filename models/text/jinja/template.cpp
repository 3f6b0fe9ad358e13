#include "models/text/jinja/template.hpp"

#include "models/text/jinja/parser.hpp"

namespace millrace::jinja {

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

expected<MarkedText> Template::render(const std::vector<std::pair<std::string, Value>>& variables) const {
  Run run;
  // Jinja's own functions lie below what the conversation brings, and what the template sets above both.
  const auto given = std::make_shared<Scope>();
  for (const auto& [name, function] : global_functions()) given->names[name] = function;
  for (const auto& [name, value] : variables) given->names[name] = value;
  run.scope = given;
  try {
    body_->execute(run);
  } catch (const Failure& failure) {
    return fail("line " + std::to_string(run.line) + ": " + failure.message);
  }
  return std::move(run.out);
}

}  // namespace millrace::jinja
