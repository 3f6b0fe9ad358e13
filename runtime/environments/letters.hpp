#pragma once
// Environment "letters": one turn on the prompt "say:", the same in every episode. A toy for tiny models, which only
// have to find out what kind of letters the reward spec likes.
#include "runtime/environment.hpp"

namespace millrace {

expected<EnvironmentFactory> make_letters(const EnvironmentSettings& settings);

}  // namespace millrace
