#include "models/machine_limits.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

namespace millrace {

namespace {

// The shortest of some runs, in seconds.
template <class Work>
double shortest(int runs, const Work& work) {
  double best = 1e9;
  for (int run = 0; run < runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

double measure_reading() {
  constexpr std::int64_t bytes = std::int64_t{768} << 20;
  const at::Tensor memory = at::ones({bytes}, at::kByte);
  const auto* data = memory.const_data_ptr<std::uint8_t>();
  // To look for a byte that is not there takes reading them all, as fast as libc can.
  const double seconds = shortest(4, [&] {
    at::parallel_for(0, bytes, bytes / 256, [&](std::int64_t begin, std::int64_t end) {
      TORCH_CHECK(!std::memchr(data + begin, 0, static_cast<std::size_t>(end - begin)));
    });
  });
  return static_cast<double>(bytes) / seconds;
}

// The larger the product the nearer to the limit; but where a processor has no instructions for a type (bfloat16 before
// AVX-512) a large one takes minutes.
double measure_multiplying(at::ScalarType dtype) {
  constexpr std::int64_t largest = 2048;
  constexpr double long_enough = 0.1;  // seconds
  for (std::int64_t size = largest / 8;; size *= 2) {
    const at::Tensor a = at::randn({size, size}).to(dtype), b = at::randn({size, size}).to(dtype);
    const double seconds = shortest(6, [&] { a.mm(b); });
    if (size == largest || seconds > long_enough) return 2 * std::pow(static_cast<double>(size), 3) / seconds;
  }
}

}  // namespace

MachineLimits measure_limits() {
  const c10::InferenceMode no_gradients;
  return {measure_reading(), measure_multiplying(at::kFloat), measure_multiplying(at::kBFloat16)};
}

}  // namespace millrace
