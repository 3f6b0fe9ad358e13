#pragma once
// The way of a trajectory from its permit to its outcome: who may start, what is durable, what is still fresh enough to
// be trained, and why anything else is not. The gatekeeper actor is a shell around it; all calls come from one thread.
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "runtime/ledger.hpp"
#include "runtime/metrics.hpp"
#include "runtime/staleness.hpp"
#include "runtime/trajectory.hpp"

namespace millrace {

using TrajectoryPtr = std::shared_ptr<const Trajectory>;

// What the learner gets of the open step; `last`: with these the step's batch is complete (they may be none, when
// min_batch suffices after max_wait_s).
struct Taken {
  std::vector<TrajectoryPtr> trajectories;
  bool last = false;
};

class Gatekeeper {
 public:
  Gatekeeper(const Settings& settings, Version learner, Ledger ledger, Metrics& metrics);

  // A permit for one session, with the id its trajectory will have; 0 when the gate is closed.
  TrajectoryId acquire();
  // Takes a finished session's trajectory. Durable on return when its outcome is `queued`; any other outcome writes it
  // down with its reason and gives the permit back.
  void submit(Trajectory trajectory, Outcome outcome, const std::string& reason);

  // Up to `max` trajectories for the open step; those whose lag has grown above max_lag are settled as stale.
  // Empty and not last: nothing to be had now. `now`: seconds of a clock that never goes back.
  Taken take(int max, double now);
  // The open step became a published version, or nothing: its trajectories leave the queue, the next step opens.
  void published(Version version);
  void skipped(const std::string& reason);

  // The service ends: what is still queued or in the open step will not be trained, and the ledger says so.
  void close();

  Version learner_version() const { return learner_; }
  const StalenessGate& gate() const { return gate_; }
  const Ledger& ledger() const { return ledger_; }
  double step_deadline() const;  // when min_batch suffices; infinity while the step is empty

 private:
  void settle_step(Outcome outcome, const std::string& reason, Version version);
  void judge(const Trajectory& trajectory, bool trained);
  void show();

  Settings settings_;
  Version learner_;
  Ledger ledger_;
  Metrics& metrics_;
  StalenessGate gate_;
  std::deque<TrajectoryPtr> queue_;
  std::vector<TrajectoryPtr> step_;  // handed out for the open step
  bool step_complete_ = false;
  double step_started_ = 0;
};

}  // namespace millrace
