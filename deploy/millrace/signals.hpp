#pragma once
// SIGTERM and SIGINT as calls instead of interruptions: the first asks to end in order, a second ends at once.
#include <atomic>
#include <functional>
#include <thread>

namespace millrace {

// Blocks both signals in the calling thread and all that it starts from now on; also ignores SIGPIPE: a service
// outlives whoever reads its output. Call it before any thread exists.
void block_signals();

// Waits for the signals on a thread of its own. The first one calls `stop`.
class SignalWatch {
 public:
  explicit SignalWatch(std::function<void()> stop);
  ~SignalWatch();

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace millrace
