#pragma once
// The directory where a service keeps what must outlive it. One service at a time; nothing in it is ever deleted here.
#include <string>

#include "config/expected.hpp"

namespace millrace {

// Renames the directory, if there is one, to <directory>.<UTC time>; returns the new name, empty if there was none.
// Errors: another service is using it; it cannot be renamed.
expected<std::string> move_aside(const std::string& directory);

}  // namespace millrace
