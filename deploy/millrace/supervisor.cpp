#include "deploy/millrace/supervisor.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

namespace millrace {

void notify_supervisor(const std::string& message) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!path || std::strlen(path) >= sizeof address.sun_path) return;
  std::strcpy(address.sun_path, path);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // abstract: no file behind it
  const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  ::sendto(descriptor, message.data(), message.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
           length);
  ::close(descriptor);
}

SystemdWatchdog::SystemdWatchdog(std::function<bool()> healthy) {
  const char* period = std::getenv("WATCHDOG_USEC");
  if (!period) return;
  const std::chrono::microseconds half(std::strtoull(period, nullptr, 10) / 2);
  if (half.count() == 0) return;
  thread_ = std::thread([this, half, healthy = std::move(healthy)] {
    std::unique_lock lock(mutex_);
    while (!over_) {
      lock.unlock();
      if (healthy()) notify_supervisor("WATCHDOG=1");
      lock.lock();
      changed_.wait_for(lock, half, [this] { return over_; });
    }
  });
}

SystemdWatchdog::~SystemdWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace millrace
