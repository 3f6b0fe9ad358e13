#include "runtime/environments/calculator.hpp"

#include <optional>
#include <string_view>

#include "runtime/environments/episode_mix.hpp"
#include "runtime/environments/expression.hpp"

namespace millrace {
namespace {

constexpr std::string_view opening = "<calc>";
constexpr std::string_view closing = "</calc>";
constexpr const char* system_message =
    "You answer with the result of a calculation. You have a calculator: write <calc>12*3</calc> and stop, and you are "
    "told the result. When you know the answer, write it as a number.";

// Small enough for a child, large enough that a small model does better to ask.
std::string expression_of(std::uint64_t episode) {
  EpisodeMix mix(episode);
  const auto operand = [&mix] { return std::to_string(2 + mix.below(98)); };
  const std::string a = operand(), b = operand(), c = operand();
  switch (mix.below(5)) {
    case 0: return a + " + " + b;
    case 1: return a + " - " + b;
    case 2: return a + " * " + b;
    case 3: return "(" + a + " + " + b + ") * " + c;
    default: return a + " * " + b + " - " + c;
  }
}

// What the tool says to the first call of the turn; nothing where there is none.
std::optional<std::string> answer_call(std::string_view action) {
  const std::size_t start = action.find(opening);
  if (start == std::string_view::npos) return std::nullopt;
  const std::string_view inside = action.substr(start + opening.size());
  const std::size_t end = inside.find(closing);
  if (end == std::string_view::npos) return "error: malformed call: <calc> without </calc>";
  const auto value = evaluate(inside.substr(0, end));
  return value ? to_text(*value) : "error: " + value.error().message;
}

class Calculator : public Environment {
 public:
  expected<Task> reset(std::uint64_t episode) override {
    const std::string expression = expression_of(episode);
    const auto value = evaluate(expression);
    if (!value) return fail("calculator: " + expression + ": " + value.error().message);
    const std::string text = "What is " + expression + "?";
    return Task{.prompt = {{"system", system_message}, {"user", text}}, .text = text, .expected = to_text(*value)};
  }

  expected<Observation> step(const std::string& action) override {
    const auto answer = answer_call(action);
    if (!answer) return Observation{};
    return Observation{.over = false, .truncated = false, .message = {"tool", *answer}, .reward = 0};
  }
};

}  // namespace

expected<EnvironmentFactory> make_calculator(const EnvironmentSettings& settings) {
  if (!settings.data.empty()) return fail("\"environment.data\": calculator makes its own tasks: leave it empty");
  return [] { return std::make_unique<Calculator>(); };
}

}  // namespace millrace
