#pragma once
// Where a role computes, and in which numbers.
#include <string>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace millrace {

struct Compute {
  Compute(at::ScalarType numbers, at::Device where = at::kCPU) : dtype(numbers), device(where) {}
  bool operator==(const Compute&) const = default;
  at::ScalarType dtype;
  at::Device device;
};

// "cpu", "cuda" or "cuda:1"; another name is a bug and throws.
at::Device device_of(const std::string& name);

// "auto" is bfloat16 where the device multiplies it in hardware, else float32; "int8" is kChar, for decoding on CPUs
// only. Another name is a bug and throws.
Compute compute_of(const std::string& dtype, const std::string& device = "cpu");

}  // namespace millrace
