#pragma once
#include <cstdlib>

namespace millrace::testing {

// How often a test of endurance repeats itself: MILLRACE_ROUNDS, or as often as a usual run has time for.
inline int rounds_or(int usual) {
  const char* wanted = std::getenv("MILLRACE_ROUNDS");
  return wanted ? std::atoi(wanted) : usual;
}

}  // namespace millrace::testing
