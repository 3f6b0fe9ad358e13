#pragma once
// What the compute actors have done so far, counted where it happens and read by whoever makes a report of it.
#include <atomic>
#include <chrono>
#include <cstdint>

namespace millrace {

struct Activity {
  std::atomic<std::uint64_t> prompt_tokens{0};
  std::atomic<std::uint64_t> generated_tokens{0};
  std::atomic<std::uint64_t> learner_token_passes{0};  // tokens x passes, forward and backward counted as one
  std::atomic<std::uint64_t> generator_busy_ns{0};
  std::atomic<std::uint64_t> policy_busy_ns{0};
  std::atomic<std::uint64_t> value_busy_ns{0};
};

// Adds the time of its own life to a counter.
class BusyTimer {
 public:
  explicit BusyTimer(std::atomic<std::uint64_t>& counter)
      : counter_(counter), start_(std::chrono::steady_clock::now()) {}
  ~BusyTimer() { counter_ += static_cast<std::uint64_t>((std::chrono::steady_clock::now() - start_).count()); }
  BusyTimer(const BusyTimer&) = delete;
  BusyTimer& operator=(const BusyTimer&) = delete;
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::atomic<std::uint64_t>& counter_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace millrace
