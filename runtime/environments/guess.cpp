#include "runtime/environments/guess.hpp"

#include <charconv>
#include <optional>

#include "runtime/environments/episode_mix.hpp"

namespace millrace {
namespace {

constexpr int largest = 100;
constexpr const char* task_text =
    "I think of a whole number from 1 to 100. Guess it: write one number, and I say higher or lower.";

// The first whole number in the text.
std::optional<int> number_in(const std::string& text) {
  const std::size_t begin = text.find_first_of("0123456789");
  if (begin == std::string::npos) return std::nullopt;
  int value = 0;
  const auto read = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  return read.ec == std::errc() ? std::optional(value) : std::nullopt;
}

class Guess : public Environment {
 public:
  expected<Task> reset(std::uint64_t episode) override {
    number_ = 1 + static_cast<int>(EpisodeMix(episode).below(largest));
    return Task{.prompt = {{"user", task_text}}, .text = task_text, .expected = std::to_string(number_)};
  }

  expected<Observation> step(const std::string& action) override {
    const auto guess = number_in(action);
    if (guess == number_) return Observation{.over = true, .truncated = false, .message = {}, .reward = 1};
    const char* hint = !guess ? "That is no number. Write one from 1 to 100." : *guess < number_ ? "higher" : "lower";
    return Observation{.over = false, .truncated = false, .message = {"user", hint}, .reward = 0};
  }

 private:
  int number_ = 0;
};

}  // namespace

expected<EnvironmentFactory> make_guess(const EnvironmentSettings& settings) {
  if (!settings.data.empty()) return fail("\"environment.data\": guess makes its own tasks: leave it empty");
  return [] { return std::make_unique<Guess>(); };
}

}  // namespace millrace
