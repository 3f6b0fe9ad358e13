#pragma once
// Template source -> nodes. Throws Failure with the line for all that is unknown.
#include "models/text/jinja/nodes.hpp"

namespace millrace::jinja {

Block parsed(std::string_view source);

}  // namespace millrace::jinja
