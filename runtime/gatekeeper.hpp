#pragma once
// The way of a trajectory from its permit to its outcome: who may start, what is durable, what is still fresh enough to
// be trained, and why anything else is not. The gatekeeper actor is a shell around it; all calls come from one thread.
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "runtime/checkpoint.hpp"
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

enum class GateMode {
  open,
  paused,    // grants no permit and hands nothing to the learners
  draining,  // grants no permit; the learners go on as long as sessions are still running
};
const char* name_of(GateMode mode);

inline constexpr const char* preference_shift = "preference shift";  // the reason of what expired by one

// The mean reward under the newest spec that was seen.
struct RewardMean {
  double sum = 0;
  double count = 0;
  std::uint64_t spec = 0;
  void add(const Score& score);
  double value() const { return sum / count; }  // NaN of nothing
};

class Gatekeeper {
 public:
  // Also takes up what the ledger holds of former services: queued trajectories are queued again.
  Gatekeeper(const Settings& settings, Version learner, Ledger ledger, Metrics& metrics);

  // A permit for one session, with the id its trajectory will have; 0 when the gate is closed. Groups take theirs
  // together: once the first member has one, there is one for each of the others.
  TrajectoryId acquire();
  bool may_start() const;  // whether acquire() would give one
  // Takes a finished session's trajectory. Durable on return when its outcome is `queued`; any other outcome writes it
  // down with its reason and gives the permit back.
  void submit(Trajectory trajectory, Outcome outcome, const std::string& reason);
  void submit(std::vector<Submission> submissions);  // the same for several, in one commit
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

  // Those that wait for the learner are dropped. Deletes words and tokens of all (Ledger::redact): [{"id", "outcome",
  // "version"}] says what became of each.
  nlohmann::json forget(const std::vector<TrajectoryId>& ids);

  void set_mode(GateMode mode) { mode_ = mode; }
  GateMode mode() const { return mode_; }
  void limit_steps(std::uint64_t published) { steps_left_ = published; }  // no step begins after so many more versions
  bool drained() const { return running_ == 0 && gate_.running() == 0 && !step_complete_; }

  // Checkpoints. While the gate holds, the open step is not completed, so both learners stay at the same batch.
  bool step_in_progress() const { return step_complete_; }
  // While the ledger cannot be written nothing new begins; what has come in waits. Called once in a while.
  void retry();
  void prune(double unix_now);  // what is too old, or too much; called once in a while
  // What cannot be written, the ledger or a checkpoint, and why; empty: all can.
  const std::string& problem() const { return problem_.empty() ? checkpoint_problem_ : problem_; }
  const char* state() const { return problem().empty() ? name_of(mode_) : "degraded"; }
  void hold(bool held) { held_ = held; }
  bool checkpoint_due(double now) const {
    return step_number_ - checkpointed_ >= every_steps_ && now >= checkpoint_again_;
  }
  CheckpointRow next_checkpoint();  // of the state the learners are in, without a name yet
  std::uint64_t checkpointed_step() const { return checkpointed_; }
  std::size_t forks() const { return lineage_.forks(); }
  std::uint64_t step_number() const { return step_number_; }  // batches the critic has learned from
  // A finished checkpoint becomes the one to go on from. Returns the names of those that stay.
  expected<std::vector<std::string>> checkpointed(const CheckpointRow& row);
  // It could not be written. Training goes on; the next attempt is due a few seconds from `now`.
  void checkpoint_failed(const std::string& why, double now);
  // The learners are back at this checkpoint's state, published as `resumed_as`.
  expected<void> rolled_back(const CheckpointRow& row, Version resumed_as);
  expected<void> end_in_order();  // the last thing before the end, after a checkpoint

  Version learner_version() const { return learner_; }
  const StalenessGate& gate() const { return gate_; }  // counts groups
  int capacity() const;                                // sessions that may start now
  int running() const { return running_; }             // sessions
  const Ledger& ledger() const { return ledger_; }
  double step_deadline() const;  // when min_batch suffices; infinity while the step is empty

 private:
  void write(std::vector<Submission> submissions);
  void accepted(Submission submission);
  void degraded(const std::string& why);
  void close_group(ClosedGroup group);
  void judge_next_group(double now);
  void settle(const std::vector<TrajectoryPtr>& trajectories, Outcome outcome, const std::string& reason,
              std::uint64_t step = 0);
  void settle_step(Outcome outcome, const std::string& reason);
  void begin_group();
  void expire_waiting();
  void rescore_waiting(const RewardSpec& spec, std::uint64_t version);
  void load_queue();
  void reopen_unfinished_groups();
  void recover_open_groups();
  std::vector<Trajectory> read_again(const std::vector<TrajectoryId>& ids);
  bool is_abandoned(const Trajectory& trajectory) const;
  bool may_take() const;
  bool may_begin() const;                                                // a step
  bool may_complete() const;                                             // the open step, once it has its trajectories
  bool all_came_in() const { return running_ == 0 && capacity() == 0; }  // every session that may run
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
  std::deque<TrajectoryId> to_start_;  // members of the group that was begun last, still without a permit
  std::deque<std::vector<TrajectoryId>> unfinished_;  // groups of a killed service: members that are still to come in
  int running_ = 0;
  std::deque<std::vector<TrajectoryPtr>> queue_;  // closed groups
  std::deque<TrajectoryPtr> fresh_;               // of groups in the open step: judged, not yet handed out
  std::vector<TrajectoryPtr> step_;               // judged for the open step
  int step_groups_ = 0;
  bool starved_ = false;     // the learner has found less than it could take, in the open step
  int in_order_ = 0;         // groups at the queue's front that no other can come before any more
  std::vector<int> passes_;  // of what was handed out of the open step: which pass of the learners it is in
  int pass_ = 0;
  bool step_complete_ = false;
  double step_started_ = 0;
  double expire_before_ = 0;  // sessions that began earlier (Unix seconds) are dropped at their end
  struct Settlement {
    std::vector<TrajectoryId> ids;
    Outcome outcome;
    std::string reason;
    Version version;
    std::uint64_t step;
    std::vector<int> passes;
  };
  std::string problem_;
  std::vector<Submission> unwritten_;  // with their permits
  std::deque<Settlement> unsettled_;
  Lineage lineage_;
  GateMode mode_ = GateMode::open;
  bool held_ = false;
  std::uint64_t every_steps_;
  std::uint64_t step_number_ = 0;
  std::uint64_t checkpointed_ = 0;  // step of the newest checkpoint
  std::string checkpoint_problem_;
  double checkpoint_again_ = 0;
  RewardMean reward_;  // of what was trained since the newest checkpoint
  std::uint64_t steps_left_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace millrace
