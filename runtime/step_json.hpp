#pragma once
// One policy step as JSON, as `serve --json`, the status and the event stream show it (names: DESIGN section 5).
#include <nlohmann/json.hpp>

#include "runtime/metrics.hpp"

namespace millrace {

nlohmann::ordered_json to_json(const StepReport& report);  // what is not a number is written as null

}  // namespace millrace
