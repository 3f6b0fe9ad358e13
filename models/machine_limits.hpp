#pragma once
// What this machine can do at best, measured: what a figure of speed is compared with.
namespace millrace {

struct MachineLimits {
  double read_bytes_per_second = 0;  // of memory, all threads
  double float32_flops = 0;          // a second, of a large matrix product
  double bfloat16_flops = 0;
};

// On as many threads as use_threads() says. Takes about two seconds and 0.8 GB.
MachineLimits measure_limits();

}  // namespace millrace
