#include "runtime/environments/turns.hpp"

namespace millrace {
namespace {

class Turns : public Environment {
 public:
  expected<Task> reset(std::uint64_t) override {
    return Task{.prompt = {{"user", "say:"}}, .text = "say:", .expected = ""};
  }
  expected<Observation> step(const std::string&) override {
    return Observation{.over = false, .truncated = false, .message = {"tool", "more:"}, .reward = 0};
  }
};

}  // namespace

expected<EnvironmentFactory> make_turns(const EnvironmentSettings& settings) {
  if (!settings.data.empty()) return fail("\"environment.data\": turns has no tasks to read: leave it empty");
  return [] { return std::make_unique<Turns>(); };
}

}  // namespace millrace
