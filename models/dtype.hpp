#pragma once
// Which numbers the arithmetic is done in.
#include <string>

#include <c10/core/ScalarType.h>

namespace millrace {

// "auto" is bfloat16 where the CPU multiplies it in hardware, else float32; "int8" is kChar, for decoding only. Another
// name is a bug and throws.
at::ScalarType compute_dtype(const std::string& name);

}  // namespace millrace
