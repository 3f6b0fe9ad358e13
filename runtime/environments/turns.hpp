#pragma once
// Environment "turns": the prompt "say:", and after each answer "more:", until a limit of turns or tokens ends it. A
// toy with which long episodes can be tried on tiny models.
#include "runtime/environment.hpp"

namespace millrace {

expected<EnvironmentFactory> make_turns(const EnvironmentSettings& settings);

}  // namespace millrace
