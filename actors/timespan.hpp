#pragma once
// Settings tell times in seconds, CAF wants its own unit.
#include <chrono>

#include <caf/timespan.hpp>

namespace millrace {

inline caf::timespan timespan_of(double seconds) {
  return std::chrono::duration_cast<caf::timespan>(std::chrono::duration<double>(seconds));
}

}  // namespace millrace
