#pragma once
// The way of a trajectory from its permit to its outcome: who may start, what is durable, what is still fresh enough to
// be trained, and why anything else is not. The gatekeeper actor is a shell around it; all calls come from one thread.
#include <deque>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "runtime/groups.hpp"
#include "runtime/ledger.hpp"
#include "runtime/metrics.hpp"
#include "runtime/pacing.hpp"
#include "runtime/preference.hpp"
#include "runtime/staleness.hpp"
#include "runtime/trajectory.hpp"

namespace millrace {

// What the learner gets of the open step; `last`: with these the step's batch is complete (they may be none, when
// min_batch suffices after max_wait_s).
struct Taken {
  std::vector<TrajectoryPtr> trajectories;
  bool last = false;
};

class Gatekeeper {
 public:
  Gatekeeper(const Settings& settings, Version learner, Ledger ledger, Metrics& metrics);

  // A permit for one session, with the id its trajectory will have; 0 when the gate is closed. Groups take theirs
  // together: once the first member has one, there is one for each of the others.
  TrajectoryId acquire();
  bool may_start() const;  // whether acquire() would give one
  // Takes a finished session's trajectory. Durable on return when its outcome is `queued`; any other outcome writes it
  // down with its reason and gives the permit back.
  void submit(Trajectory trajectory, Outcome outcome, const std::string& reason);
  // Closes groups that have waited too long. `now` as below; called once in a while.
  void expire_groups(double now);

  // Up to `max` trajectories for the open step; those whose lag has grown above max_lag are settled as stale.
  // Empty and not last: nothing to be had now. `now`: seconds of a clock that never goes back.
  Taken take(int max, double now);
  // The open step became a published version, or nothing: its trajectories leave the queue, the next step opens.
  void published(Version version);
  void skipped(const std::string& reason);

  // The reward spec was replaced at this time (Unix seconds): what waits in the queue is kept, scored again or dropped.
  void shift(const RewardSpec& spec, std::uint64_t version, InFlight in_flight, double at);

  // The service ends: what is still queued or in the open step will not be trained, and the ledger says so.
  void close();

  Version learner_version() const { return learner_; }
  const StalenessGate& gate() const { return gate_; }  // counts groups
  int capacity() const;                                // sessions that may start now
  int running() const { return running_; }             // sessions
  const Ledger& ledger() const { return ledger_; }
  double step_deadline() const;  // when min_batch suffices; infinity while the step is empty

 private:
  void close_group(ClosedGroup group);
  void judge_next_group(double now);
  void settle(const std::vector<TrajectoryPtr>& trajectories, Outcome outcome, const std::string& reason);
  void settle_step(Outcome outcome, const std::string& reason);
  void judge(const Trajectory& trajectory, bool trained);
  void show();

  Settings settings_;
  int batch_, min_batch_;  // groups
  Version learner_;
  Ledger ledger_;
  Metrics& metrics_;
  Pacing pacing_;
  StalenessGate gate_;  // in groups: running until a group closes, then queued until it is in a published version
  Groups groups_;
  TrajectoryId next_member_ = 0, after_group_ = 0;  // permits left of the group that was opened last
  int running_ = 0;
  std::deque<std::vector<TrajectoryPtr>> queue_;  // closed groups
  std::deque<TrajectoryPtr> fresh_;               // of groups in the open step: judged, not yet handed out
  std::vector<TrajectoryPtr> step_;               // judged for the open step
  int step_groups_ = 0;
  bool step_complete_ = false;
  double step_started_ = 0;
  double expire_before_ = 0;  // sessions that began earlier (Unix seconds) are dropped at their end
};

}  // namespace millrace
