#pragma once
// Environment "calculator": several turns. The policy is asked for the result of a small expression and may ask a tool,
// <calc>12*3</calc>; the result comes back as an observation. A turn without a call is its final answer.
#include "runtime/environment.hpp"

namespace millrace {

expected<EnvironmentFactory> make_calculator(const EnvironmentSettings& settings);

}  // namespace millrace
