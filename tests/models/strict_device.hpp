#pragma once
// A device like a GPU, for machines without one: its memory cannot be touched by the host, an operation with tensors of
// two devices throws. Its arithmetic is the CPU's, so that results can be compared.
#include <string>

namespace millrace::testing {

// Its name, "strict:0".
std::string strict_device();

}  // namespace millrace::testing
