#pragma once
// How far behind the learner a policy may be: the lag of a trajectory, and the number of sessions that may run so that
// none will have to be thrown away for it. Plain arithmetic; the gatekeeper actor is a shell around it.
#include <algorithm>
#include <cstdint>

#include "models/text/tokens.hpp"

namespace millrace {

// Lag = the learner's version when a token is trained minus the version that sampled the oldest trained token.
// In flight = what passed while it was being sampled (up to its newest token's version); in queue = the rest.
struct Lag {
  Version total = 0;
  Version in_flight = 0;
  Version in_queue = 0;
};

Lag lag_of(Version learner, Version oldest, Version newest);

// Counts permits and accepted trajectories:
//   capacity = min(session_limit - running, (max_lag + 1) * batch - queued - running)
// or less where generation is to be less far ahead than max_lag batches.
// queued = accepted and not yet in a published version, those taken for the unfinished step included.
class StalenessGate {
 public:
  StalenessGate(int session_limit, int max_lag, int batch);

  void allow_ahead(int count) { ahead_ = std::min(count, max_lag_ * batch_); }  // beyond one batch

  int capacity() const;
  int running() const { return running_; }
  int queued() const { return queued_; }
  int max_lag() const { return max_lag_; }

  bool acquire();         // takes a permit when there is one
  void release();         // a session ended without a trajectory for the queue
  void accept();          // a session's trajectory went into the queue: its permit becomes a place there
  void leave(int count);  // so many left the queue: published, rejected, skipped
  void requeue(int count) { queued_ = count; }  // so many are in it, as a restart or a rollback found

 private:
  int session_limit_;
  int max_lag_;
  int batch_;
  int ahead_;
  int running_ = 0;
  int queued_ = 0;
};

}  // namespace millrace
