#pragma once
#include <chrono>
#include <thread>

namespace millrace::testing {

// Whether it becomes true before so many seconds are over.
template <class Condition>
bool eventually(std::chrono::seconds patience, Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace millrace::testing
