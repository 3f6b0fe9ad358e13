#pragma once
// One policy step as `millrace serve` shows it: a line to read, or a JSON object for scripts (names: DESIGN section 5).
#include <string>

#include "runtime/metrics.hpp"

namespace millrace {

std::string progress_line(const StepReport& report);
std::string progress_json(const StepReport& report);  // one line; what is not a number is null

}  // namespace millrace
