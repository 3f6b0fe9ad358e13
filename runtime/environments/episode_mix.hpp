#pragma once
// Turns episode numbers into tasks that vary: neighbouring episodes share nothing, the same number gives the same task.
// splitmix64 (Steele, Lea, Flood 2014): every bit of the number reaches every bit of the result.
#include <cstdint>

namespace millrace {

class EpisodeMix {
 public:
  explicit EpisodeMix(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t count) { return next() % count; }

 private:
  std::uint64_t state_;
};

}  // namespace millrace
