#pragma once
// An OpenEnv server as an environment (environment.url, ws://HOST:PORT/ws): one connection an episode.
// environment.action is the action as JSON; in it "$text" stands for what the policy wrote and "$number" for the first
// whole number in that, as a number. The policy reads the observation as JSON, or the one field of it that
// environment.observation names.
#include "runtime/environment.hpp"

namespace millrace {

expected<EnvironmentFactory> make_openenv(const EnvironmentSettings& settings);

}  // namespace millrace
