#pragma once
// Many turns: the policy guesses a whole number and is told whether it was too high or too low. Exact answers are
// scored by the reward spec; the environment itself gives 1 for the right number.
#include "runtime/environment.hpp"

namespace millrace {

expected<EnvironmentFactory> make_guess(const EnvironmentSettings& settings);

}  // namespace millrace
