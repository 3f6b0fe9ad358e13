#include "runtime/staleness.hpp"

#include <stdexcept>

namespace millrace {

Lag lag_of(Version learner, Version oldest, Version newest) {
  Lag lag;
  lag.total = learner > oldest ? learner - oldest : 0;
  lag.in_flight = std::min(lag.total, newest - oldest);
  lag.in_queue = lag.total - lag.in_flight;
  return lag;
}

StalenessGate::StalenessGate(int session_limit, int max_lag, int batch)
    : session_limit_(session_limit), max_lag_(max_lag), batch_(batch), ahead_(max_lag * batch) {}

int StalenessGate::capacity() const {
  return std::max(0, std::min(session_limit_ - running_, batch_ + ahead_ - queued_ - running_));
}

bool StalenessGate::acquire() {
  if (capacity() <= 0) return false;
  ++running_;
  return true;
}

void StalenessGate::release() {
  if (running_ <= 0) throw std::logic_error("StalenessGate: a permit was given back twice");
  --running_;
}

void StalenessGate::accept() {
  release();
  ++queued_;
}

void StalenessGate::leave(int count) {
  if (count > queued_) throw std::logic_error("StalenessGate: more trajectories left the queue than were in it");
  queued_ -= count;
}

}  // namespace millrace
