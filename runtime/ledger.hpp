#pragma once
// The service's memory of trajectories: one SQLite file (WAL) that an operator can open with sqlite3. A trajectory is
// accepted when its row is durable; afterwards its outcome is written once.
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/expected.hpp"
#include "runtime/checkpoint.hpp"
#include "runtime/lineage.hpp"
#include "runtime/trajectory.hpp"

namespace millrace {

struct LedgerCounts {
  std::uint64_t accepted = 0;  // = trained + queued + rejected, each counted, not derived
  std::uint64_t trained = 0;
  std::uint64_t queued = 0;
  std::uint64_t rejected = 0;
};

// What a service finds of those before it.
struct LedgerPast {
  std::uint64_t incarnation = 1;  // of this service: how many have begun on this ledger, this one counted
  Version published = 0;          // newest version it knows of; a killed service may have published one more
  std::uint64_t step = 0;         // batches the critic had learned from
  bool clean = true;              // the last one ended in order, or there was none
};

struct Submission {
  Trajectory trajectory;
  Outcome outcome = Outcome::queued;  // or how a trajectory that never came to the queue ended
  std::string reason;
};

// A group of sessions not all of which had ended when the service was killed.
struct UnfinishedGroup {
  std::vector<TrajectoryId> missing;  // that have no row: all, or
  std::vector<TrajectoryId> queued;   // these came in and wait for the others
};

class Ledger {
 public:
  // Opens or creates state_directory/ledger.sqlite. Errors: not writable, not a ledger, a newer format.
  static expected<Ledger> open(const std::string& state_directory);
  // For `millrace trajectories` without a running service.
  static expected<Ledger> open_read_only(const std::string& state_directory);
  // Writes nothing down and only counts: for measuring what everything else costs.
  static Ledger forgetful();
  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) noexcept;
  ~Ledger();

  // The first of `size` consecutive ids, 1 more than a multiple of it. Grows for ever, over restarts.
  TrajectoryId next_group(int size = 1);
  // Groups of that size that are to be finished before others begin, so that no task is left out; oldest first.
  std::deque<UnfinishedGroup> unfinished_groups(int size = 1) const;
  // Durable on return, all of them or none.
  expected<void> accept(const std::vector<Submission>& submissions);
  expected<void> accept(const Trajectory& trajectory, Outcome outcome, const std::string& reason);
  // Writes what became of queued trajectories, all in one commit. version: the published version that holds them
  // (trained), or the learner's version at the judgement. step: the batch that learned from them, in the order of
  // `ids`; 0 = none did. passes[i]: the pass in which ids[i] went through the learners; none given: all in one.
  expected<void> settle(const std::vector<TrajectoryId>& ids, Outcome outcome, const std::string& reason,
                        Version version, std::uint64_t step = 0, const std::vector<int>& passes = {});

  // Gives queued trajectories another score, all in one commit.
  expected<void> rescore(const std::vector<std::shared_ptr<const Trajectory>>& trajectories);

  // The frontier: a service that is killed goes on from the newest checkpoint named here. (ledger_frontier.cpp)
  // `model`: checksum of the weights it starts from. Errors: the ledger is another model's.
  expected<LedgerPast> begin_incarnation(std::uint64_t model);
  // Where this is a copy of another replica's ledger, what is queued is that one's to learn from: it is settled here.
  expected<void> become_replica(int rank, Version version);
  expected<void> end_incarnation();                // in order: nothing was published after the newest checkpoint
  std::vector<CheckpointRow> checkpoints() const;  // of the surviving lineage, newest first
  // And forgets all but the newest `keep` and, of those rewarded under the same spec, the best `keep_best`.
  expected<void> name_checkpoint(const CheckpointRow& row, int keep, int keep_best = 0);
  struct Learned {
    TrajectoryId id = 0;
    int pass = 1;
    Version version = 0;
  };
  std::vector<Learned> batch(std::uint64_t step) const;  // what that batch learned from, in its order
  std::uint64_t step() const;                            // batches the critic has learned from
  Lineage lineage() const;
  // Goes on from this checkpoint (policy_version and step are read) under a new number: what was learned from after it
  // is queued again, checkpoints after it are forgotten. One commit. Returns how many trajectories were queued again.
  // `repeats`: as in Fork.
  expected<int> fork(const CheckpointRow& from, Version resumed_as, bool repeats = false);
  std::vector<TrajectoryId> scored() const;  // all that have a reward, oldest first, whatever became of them
  std::vector<TrajectoryId> queued() const;  // in the order of acceptance

  // Deletes the words and the tokens of these; what became of them stays. Not yet those of one that is queued, and not
  // the tokens of one that a rollback could still queue again.
  expected<void> redact(const std::vector<TrajectoryId>& ids);
  // Removes settled trajectories, the oldest first, up to a thousand a call: those settled before that Unix time, or
  // any while the file holds more bytes. What was learned after batch `step` stays: a checkpoint may go back to it. The
  // counts go on as if all were there. Returns how many are gone. (ledger_retention.cpp)
  expected<int> prune(double settled_before, std::int64_t most_bytes, std::uint64_t step);

  LedgerCounts counts() const;
  // Newest first, without token payloads: id, state, outcome, reason, environment, task, answer, reward, reward_parts,
  // reward_spec, reward_spec_version, ending, turns, tokens, action_tokens, policy_version_oldest/newest, version,
  // created, seconds.
  nlohmann::json list(const std::optional<std::string>& state, int limit) const;
  // The same for one, with position, step and step_position (null: no batch learned from it), policy_version_finished.
  std::optional<nlohmann::json> find(TrajectoryId id) const;
  // The full trajectory, token payloads included, bit for bit.
  expected<Trajectory> read(TrajectoryId id) const;

 private:
  struct State;
  void count(Outcome outcome);
  expected<void> insert(const Trajectory& trajectory, Outcome outcome, const std::string& reason);
  explicit Ledger(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace
