#pragma once
// "Did you mean ...?": the known name that is closest to a mistyped one. Used by every error about an unknown name.
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// Closest by edit distance. A name with sections is also compared by its last part, so "temperature" finds
// "generation.temperature". `known` must not be empty.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace millrace
