#pragma once
// An environment behind HTTP: POST URL/reset {"episode"} starts an episode and names it, POST URL/step {"session",
// "action"} takes a turn of it, POST URL/close {"session"} ends one that is not over. What they answer is in
// remote_step.hpp.
#include "runtime/environment.hpp"

namespace millrace {

// Errors: environment.url is missing or no URL.
expected<EnvironmentFactory> make_http_environment(const EnvironmentSettings& settings);

}  // namespace millrace
