#pragma once
// Signals as calls instead of interruptions: the first SIGTERM or SIGINT asks to end in order, a second ends at once;
// SIGHUP asks to reload.
#include <atomic>
#include <functional>
#include <thread>

namespace millrace {

// Blocks the signals in the calling thread and all that it starts from now on; also ignores SIGPIPE: a service
// outlives whoever reads its output. Call it before any thread exists.
void block_signals();

// Waits for the signals on a thread of its own.
class SignalWatch {
 public:
  SignalWatch(std::function<void()> stop, std::function<void()> reload);
  ~SignalWatch();

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace millrace
