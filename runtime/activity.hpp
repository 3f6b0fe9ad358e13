#pragma once
// What the compute actors have done so far, counted where it happens and read by whoever makes a report of it.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace millrace {

// Time spent at work, and since when at work now.
struct BusyTime {
  std::atomic<std::uint64_t> total_ns{0};
  std::atomic<std::int64_t> since_ns{0};  // of the steady clock; 0 = idle
  operator std::uint64_t() const { return total_ns; }
};

struct Activity {
  std::atomic<std::uint64_t> prompt_tokens{0};
  std::atomic<std::uint64_t> generated_tokens{0};
  std::atomic<std::uint64_t> learner_token_passes{0};  // tokens x passes, forward and backward counted as one
  BusyTime generator_busy_ns;
  BusyTime policy_busy_ns;
  BusyTime value_busy_ns;
  std::atomic<std::uint64_t> good_version{0};  // of the policy that answers most clients while the newest is a canary
  std::atomic<int> served_turns{0};            // live turns of applications
  std::atomic<int> roles_missing{0};           // parts of the service that have died and do not stand again yet

  std::atomic<std::int64_t> beat_ns{0};  // when the actors that share threads last got to work; 0 = not yet

  // What has been at one piece of work for more than so many seconds; empty = nothing.
  std::string hanging(std::chrono::steady_clock::time_point now, double seconds) const {
    const auto for_too_long = [&](std::int64_t since) {
      const auto start = std::chrono::steady_clock::time_point(std::chrono::steady_clock::duration(since));
      return since != 0 && std::chrono::duration<double>(now - start).count() > seconds;
    };
    if (for_too_long(generator_busy_ns.since_ns)) return "generator";
    if (for_too_long(policy_busy_ns.since_ns)) return "policy_learner";
    if (for_too_long(value_busy_ns.since_ns)) return "value_learner";
    if (for_too_long(beat_ns)) return "actors that share threads";
    return {};
  }
};

// Adds the time of its own life to a counter.
class BusyTimer {
 public:
  explicit BusyTimer(BusyTime& busy) : busy_(busy), start_(std::chrono::steady_clock::now()) {
    busy_.since_ns = start_.time_since_epoch().count();
  }
  ~BusyTimer() {
    busy_.total_ns += static_cast<std::uint64_t>((std::chrono::steady_clock::now() - start_).count());
    busy_.since_ns = 0;
  }
  BusyTimer(const BusyTimer&) = delete;
  BusyTimer& operator=(const BusyTimer&) = delete;
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  BusyTime& busy_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace millrace
