#pragma once
// What an environment is: it gives a task, answers the policy's turns, and says when it is over. One object a session;
// it never sees tokens, versions or rewards of others.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/expected.hpp"
#include "config/settings.hpp"
#include "models/text/chat.hpp"

namespace millrace {

struct Task {
  std::vector<Message> prompt;
  std::string text;      // the user's words, for ledger and scorer
  std::string expected;  // right answer, where there is one
};

struct Observation {
  bool over = true;        // the task has come to its end; message is empty then
  bool truncated = false;  // over, but cut short from outside the task
  Message message;         // else: what the policy reads next
  double reward = 0;       // reward of this turn, where the environment gives one; most leave it to the scorer
};

class Environment {
 public:
  virtual ~Environment() = default;
  // Starts the episode of the given number: the same number, the same task.
  virtual expected<Task> reset(std::uint64_t episode) = 0;
  virtual expected<Observation> step(const std::string& action) = 0;
};

// Makes environments of one kind; checks the settings and reads the tasks once.
// Errors: unknown name (lists the known ones), unreadable data file.
using EnvironmentFactory = std::function<std::unique_ptr<Environment>()>;
expected<EnvironmentFactory> make_environment_factory(const EnvironmentSettings& settings);

// Whether its steps wait for something outside the service, or may take long: its sessions need threads of their own.
bool environment_waits(const std::string& name);

}  // namespace millrace
