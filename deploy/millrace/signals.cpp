#include "deploy/millrace/signals.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

#include "runtime/log.hpp"

namespace millrace {
namespace {

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void block_signals() {
  const sigset_t set = handled_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like a full disk
}

SignalWatch::SignalWatch(std::function<void()> stop, std::function<void()> reload) {
  thread_ = std::thread([this, stop = std::move(stop), reload = std::move(reload)] {
    const sigset_t set = handled_signals();
    const auto next = [&] {
      int number = SIGHUP;
      while (true) {
        sigwait(&set, &number);
        if (number != SIGHUP || over_) return;
        reload();
      }
    };
    next();
    if (over_) return;
    log_info("serve", "signal received: ending in order, a second signal ends at once");
    stop();
    next();
    if (over_) return;
    log_warning("serve", "second signal: ending at once");
    _exit(1);
  });
}

SignalWatch::~SignalWatch() {
  over_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);  // wakes the wait
  thread_.join();
}

}  // namespace millrace
