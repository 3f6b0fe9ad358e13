#pragma once
// What whoever started the service is told: systemd's notification protocol, a datagram a message to $NOTIFY_SOCKET.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace millrace {

// "READY=1", "STOPPING=1", ... Nothing happens where nobody listens.
void notify_supervisor(const std::string& message);

// Says WATCHDOG=1 twice in each period that $WATCHDOG_USEC asks for, as long as `healthy` says yes: a service that
// hangs falls silent and is restarted.
class SystemdWatchdog {
 public:
  explicit SystemdWatchdog(std::function<bool()> healthy);
  ~SystemdWatchdog();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace millrace
