// The gatekeeper's part in checkpoints, rollbacks and restarts: what of the ledger is still to be trained, and how old
// it is in today's counting of versions.
#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/gatekeeper.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

constexpr const char* abandoned_reason = "sampled by an abandoned policy";

}  // namespace

const char* name_of(GateMode mode) {
  switch (mode) {
    case GateMode::open: return "running";
    case GateMode::paused: return "paused";
    case GateMode::draining: return "draining";
  }
  return "unknown";
}

bool Gatekeeper::is_abandoned(const Trajectory& trajectory) const {
  if (lineage_.forks() == 0 || settings_.checkpoint.abandoned != "reject") return false;
  for (std::size_t t = 0; t < trajectory.versions.size(); ++t) {
    if (trajectory.sequence.mask[t] && !lineage_.today(trajectory.versions[t])) return true;
  }
  return false;
}

// Queued trajectories as the ledger has them, in today's counting of versions. Those that are not to be trained any
// more are settled and left out.
std::vector<Trajectory> Gatekeeper::read_again(const std::vector<TrajectoryId>& ids) {
  std::vector<Trajectory> trajectories;
  std::vector<TrajectoryPtr> abandoned;
  std::vector<TrajectoryId> damaged;
  for (const TrajectoryId id : ids) {
    expected<Trajectory> read = ledger_.read(id);
    if (!read) {
      log_error("gatekeeper", read.error().message);
      damaged.push_back(id);
    } else if (is_abandoned(*read)) {
      abandoned.push_back(std::make_shared<const Trajectory>(std::move(*read)));
    } else {
      renumber(*read, lineage_);
      trajectories.push_back(std::move(*read));
    }
  }
  if (!abandoned.empty()) settle(abandoned, Outcome::rolled_back, abandoned_reason);
  if (!damaged.empty()) {
    const auto written = ledger_.settle(damaged, Outcome::invalid, "its tokens cannot be read any more", learner_);
    if (!written) log_error("gatekeeper", written.error().message);
  }
  return trajectories;
}

// They begin again when there is room for them, not sooner: what their sessions were made with is not yet there again.
void Gatekeeper::reopen_unfinished_groups() {
  const int size = settings_.recipe.grouping.size;
  for (UnfinishedGroup& group : ledger_.unfinished_groups(size)) {
    groups_.reopen(group_of(group.missing.front(), size), static_cast<int>(group.missing.size()),
                   read_again(group.queued));
    unfinished_.push_back(std::move(group.missing));
  }
}

// Members that have come in are read again: what was renumbered before a fork has to be so from the start.
void Gatekeeper::recover_open_groups() {
  std::map<TrajectoryId, Trajectory> today;
  for (Trajectory& member : read_again(groups_.waiting())) today.emplace(member.id, std::move(member));
  groups_.filter([&](Trajectory& member) {
    const auto found = today.find(member.id);
    if (found == today.end()) return false;
    member = std::move(found->second);
    return true;
  });
}

// Queued trajectories of the ledger, as groups in the order in which they were accepted. Those of groups that are still
// open wait there.
void Gatekeeper::load_queue() {
  queue_.clear();
  fresh_.clear();
  step_.clear();
  passes_.clear();
  pass_ = 0;
  step_groups_ = 0;
  step_complete_ = false;
  in_order_ = 0;
  const auto group = [&](TrajectoryId id) { return group_of(id, settings_.recipe.grouping.size); };
  std::vector<TrajectoryId> queued = ledger_.queued();
  std::erase_if(queued, [&](TrajectoryId id) { return groups_.is_open(group(id)); });
  std::map<TrajectoryId, std::vector<Trajectory>> members;
  std::vector<TrajectoryId> order;  // groups, by their last member
  for (Trajectory& member : read_again(queued)) {
    std::erase(order, group(member.id));
    order.push_back(group(member.id));
    members[group(member.id)].push_back(std::move(member));
  }
  if (pacing_.in_turns()) std::sort(order.begin(), order.end());
  for (const TrajectoryId next : order) {
    ClosedGroup closed = groups_.close(std::move(members[next]));
    if (closed.dropped.empty()) {
      queue_.push_back(std::move(closed.members));
    } else {
      settle(closed.members, Outcome::group_dropped, closed.dropped);
    }
  }
  gate_.requeue(static_cast<int>(queue_.size()));
}

void RewardMean::add(const Score& score) {
  if (!std::isfinite(score.total) || score.spec_version < spec) return;
  if (score.spec_version > spec) *this = {.spec = score.spec_version};
  sum += score.total;
  ++count;
}

CheckpointRow Gatekeeper::next_checkpoint() {
  CheckpointRow row;
  row.policy_version = learner_;
  row.step = step_number_;
  row.reward_spec = reward_.spec;
  row.reward = reward_.value();
  reward_ = {.spec = reward_.spec};
  return row;
}

void Gatekeeper::checkpoint_failed(const std::string& why, double now) {
  constexpr double patience_s = 5;
  checkpoint_problem_ = why;
  checkpoint_again_ = now + patience_s;
}

expected<std::vector<std::string>> Gatekeeper::checkpointed(const CheckpointRow& row) {
  if (!problem_.empty()) return fail(problem_);  // its trajectories are not settled yet
  const CheckpointSettings& keep = settings_.checkpoint;
  if (auto named = ledger_.name_checkpoint(row, keep.keep, keep.keep_best); !named) {
    return tl::unexpected(named.error());
  }
  checkpointed_ = row.step;
  checkpoint_problem_.clear();
  checkpoint_again_ = 0;
  std::vector<std::string> names;
  for (const CheckpointRow& kept : ledger_.checkpoints()) names.push_back(kept.name);
  return names;
}

expected<void> Gatekeeper::rolled_back(const CheckpointRow& row, Version resumed_as) {
  if (!problem_.empty()) return fail(problem_);
  const auto queued_again = ledger_.fork(row, resumed_as);
  if (!queued_again) return tl::unexpected(queued_again.error());
  lineage_ = ledger_.lineage();
  learner_ = resumed_as;
  step_number_ = checkpointed_ = row.step;
  reward_ = {};
  recover_open_groups();
  load_queue();
  metrics_.rolled_back();
  metrics_.lifetime_trained(ledger_.counts().trained);
  show();
  return {};
}

expected<void> Gatekeeper::end_in_order() {
  if (checkpointed_ != step_number_) return {};  // something was learned after the newest checkpoint
  return ledger_.end_incarnation();
}

}  // namespace millrace
