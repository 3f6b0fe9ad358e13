#pragma once
// What environments outside the service answer, as JSON, read strictly.
#include <nlohmann/json.hpp>

#include "runtime/environment.hpp"

namespace millrace {

// {"prompt", "expected"?}. Errors: {"error"}, a missing or wrong field.
expected<Task> task_of(const nlohmann::json& answer);

// {"observation", "role"?, "reward"?, "terminated", "truncated"}. Both flags on one step: it has terminated (B13).
expected<Observation> observation_of(const nlohmann::json& answer);

}  // namespace millrace
