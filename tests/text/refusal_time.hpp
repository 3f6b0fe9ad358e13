#pragma once
// The time a malformed file may take to be refused (fault B29), measured so that a busy machine does not fail it.
#include <ctime>

namespace millrace {

// Processor time of this process, seconds.
inline double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

#ifdef __SANITIZE_ADDRESS__
constexpr double refusal_seconds = 1.0;  // AddressSanitizer is there for the bounds, not for the time
#else
constexpr double refusal_seconds = 0.1;
#endif

}  // namespace millrace
