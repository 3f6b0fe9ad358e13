#pragma once
#include <chrono>

namespace millrace {

// Seconds since 1970, with a fraction.
inline double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Seconds of a clock that never goes back, from some moment on.
inline double steady_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace millrace
