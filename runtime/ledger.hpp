#pragma once
// The service's memory of trajectories: one SQLite file (WAL) that an operator can open with sqlite3. A trajectory is
// accepted when its row is durable; afterwards its outcome is written once.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/expected.hpp"
#include "runtime/trajectory.hpp"

namespace millrace {

struct LedgerCounts {
  std::uint64_t accepted = 0;  // = trained + queued + rejected, each counted, not derived
  std::uint64_t trained = 0;
  std::uint64_t queued = 0;
  std::uint64_t rejected = 0;
};

class Ledger {
 public:
  // Opens or creates state_directory/ledger.sqlite. Errors: not writable, not a ledger, a newer format.
  static expected<Ledger> open(const std::string& state_directory);
  // For `millrace trajectories` without a running service.
  static expected<Ledger> open_read_only(const std::string& state_directory);
  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) noexcept;
  ~Ledger();

  TrajectoryId next_id();  // grows for ever, over restarts
  // Durable on return. `outcome` is queued, or how a trajectory that never came to the queue ended.
  expected<void> accept(const Trajectory& trajectory, Outcome outcome, const std::string& reason);
  // Writes what became of queued trajectories, all in one commit. version: the published version that holds them
  // (trained), or the learner's version at the judgement.
  expected<void> settle(const std::vector<TrajectoryId>& ids, Outcome outcome, const std::string& reason,
                        Version version);

  // Gives queued trajectories another score, all in one commit.
  expected<void> rescore(const std::vector<std::shared_ptr<const Trajectory>>& trajectories);

  LedgerCounts counts() const;
  // Newest first, without token payloads: id, state, outcome, reason, environment, task, answer, reward, reward_parts,
  // reward_spec, reward_spec_version, ending, turns, tokens, action_tokens, policy_version_oldest/newest, version,
  // created, seconds.
  nlohmann::json list(const std::optional<std::string>& state, int limit) const;
  std::optional<nlohmann::json> find(TrajectoryId id) const;  // the same for one
  // The full trajectory, token payloads included, bit for bit.
  expected<Trajectory> read(TrajectoryId id) const;
  // Trajectories a former process left queued: their policy is gone, they end as aborted. Returns how many.
  expected<int> close_abandoned(const std::string& reason);

 private:
  struct State;
  explicit Ledger(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace
