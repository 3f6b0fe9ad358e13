#include "runtime/environments/remote_step.hpp"

#include <cmath>

namespace millrace {
namespace {

using nlohmann::json;

expected<void> check(const json& answer) {
  if (!answer.is_object()) return fail("its answer is not a JSON object");
  const auto error = answer.find("error");
  if (error == answer.end() || error->is_null()) return {};
  return fail(error->is_string() ? error->get<std::string>() : error->dump());
}

bool is_role(const json& role) { return role == "system" || role == "user" || role == "assistant" || role == "tool"; }

}  // namespace

expected<Task> task_of(const json& answer) {
  if (auto good = check(answer); !good) return tl::unexpected(good.error());
  const json prompt = answer.value("prompt", json());
  Task task;
  if (prompt.is_string()) {
    task.prompt = {{"user", prompt.get<std::string>()}};
  } else if (prompt.is_array() && !prompt.empty()) {
    for (const json& message : prompt) {
      const bool good = message.is_object() && message.contains("role") && is_role(message["role"]) &&
                        message.contains("content") && message["content"].is_string();
      if (!good) return fail("\"prompt\": expected messages with a role and a content");
      task.prompt.push_back({message["role"], message["content"]});
    }
  } else {
    return fail("\"prompt\": expected a text or messages");
  }
  task.text = task.prompt.back().content;
  const json right = answer.value("expected", json(""));
  if (!right.is_string()) return fail("\"expected\": expected a text");
  task.expected = right;
  return task;
}

expected<Observation> observation_of(const json& answer) {
  if (auto good = check(answer); !good) return tl::unexpected(good.error());
  Observation observation;
  const json terminated = answer.value("terminated", json());
  const json truncated = answer.value("truncated", json());
  if (!terminated.is_boolean() || !truncated.is_boolean()) {
    return fail("\"terminated\" and \"truncated\": expected true or false");
  }
  observation.over = terminated || truncated;
  observation.truncated = truncated && !terminated;
  const json reward = answer.value("reward", json(0.0));
  if (!reward.is_null() && !(reward.is_number() && std::isfinite(reward.get<double>()))) {
    return fail("\"reward\": expected a finite number");
  }
  observation.reward = reward.is_number() ? reward.get<double>() : 0;
  const json text = answer.value("observation", json());
  const json role = answer.value("role", json("user"));
  if (observation.over) return observation;
  if (!text.is_string()) return fail("\"observation\": expected a text");
  if (!is_role(role)) return fail("\"role\": expected user, tool, system or assistant");
  observation.message = {role, text};
  return observation;
}

}  // namespace millrace
