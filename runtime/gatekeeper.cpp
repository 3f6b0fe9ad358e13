#include "runtime/gatekeeper.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/log.hpp"

namespace millrace {

namespace {

// Action tokens a trajectory can have at most.
std::size_t token_limit(const Settings& settings) {
  const std::int64_t in_turns = std::int64_t{settings.environment.max_turns} * settings.generation.max_tokens;
  const std::int64_t in_all = std::min(settings.environment.max_tokens, settings.model.max_context);
  return static_cast<std::size_t>(std::min(in_turns, in_all));
}

}  // namespace

Gatekeeper::Gatekeeper(const Settings& settings, Version learner, Ledger ledger, Metrics& metrics)
    : settings_(settings),
      batch_(settings.batch / settings.recipe.grouping.size),
      min_batch_((settings.min_batch + settings.recipe.grouping.size - 1) / settings.recipe.grouping.size),
      learner_(learner),
      ledger_(std::move(ledger)),
      metrics_(metrics),
      pacing_(settings.pacing, settings.max_lag, batch_),
      gate_(settings.sessions.limit / settings.recipe.grouping.size, settings.max_lag, batch_),
      groups_(settings.recipe.grouping, settings.recipe.baseline.kind, token_limit(settings)),
      lineage_(ledger_.lineage()),
      every_steps_(static_cast<std::uint64_t>(settings.checkpoint.every_steps)),
      step_number_(ledger_.step()) {
  const std::vector<CheckpointRow> checkpoints = ledger_.checkpoints();
  checkpointed_ = checkpoints.empty() ? 0 : checkpoints.front().step;
  gate_.allow_ahead(pacing_.ahead());
  reopen_unfinished_groups();
  load_queue();
  metrics_.lifetime_trained(ledger_.counts().trained);
  metrics_.policy_version(learner_);
  show();
}

int Gatekeeper::capacity() const {
  const int size = settings_.recipe.grouping.size;
  const int of_opened = static_cast<int>(to_start_.size());
  if (mode_ != GateMode::open || !problem_.empty()) return of_opened;
  // Sessions may outlive their group when that has waited too long: they count, too.
  const int fitting = (settings_.sessions.limit - running_ - of_opened) / size;
  return std::max(0, std::min(gate_.capacity(), fitting)) * size + of_opened;
}

bool Gatekeeper::may_start() const { return capacity() > 0; }

TrajectoryId Gatekeeper::acquire() {
  if (!may_start()) {
    if (mode_ != GateMode::open || !problem_.empty()) {
      metrics_.gate_decision("wait", state());
      return 0;
    }
    const bool full = running_ + settings_.recipe.grouping.size > settings_.sessions.limit;
    metrics_.gate_decision("wait", full ? "sessions" : "staleness");
    return 0;
  }
  if (to_start_.empty()) begin_group();
  metrics_.gate_decision("grant", "capacity");
  ++running_;
  const TrajectoryId id = to_start_.front();
  to_start_.pop_front();
  show();
  return id;
}

// The next one, or first what a killed service has left of one.
void Gatekeeper::begin_group() {
  gate_.acquire();
  const int size = settings_.recipe.grouping.size;
  if (!unfinished_.empty()) {
    to_start_.assign(unfinished_.front().begin(), unfinished_.front().end());
    unfinished_.pop_front();
    return groups_.begin(group_of(to_start_.front(), size));
  }
  const TrajectoryId first = ledger_.next_group(size);
  for (int member = 0; member < size; ++member) to_start_.push_back(first + static_cast<TrajectoryId>(member));
  groups_.open(group_of(first, size));
}

void Gatekeeper::submit(std::vector<Submission> submissions) {
  for (Submission& submission : submissions) {
    if (submission.outcome != Outcome::queued) continue;
    if (submission.trajectory.created < expire_before_) {
      submission.outcome = Outcome::expired;
      submission.reason = preference_shift;
    } else if (!groups_.is_open(group_of(submission.trajectory.id, settings_.recipe.grouping.size))) {
      submission.outcome = Outcome::expired;
      submission.reason = "its group has closed without it";
    } else if (is_abandoned(submission.trajectory)) {
      submission.outcome = Outcome::rolled_back;
      submission.reason = "sampled by an abandoned policy";
    }
  }
  write(std::move(submissions));
  show();
}

void Gatekeeper::submit(Trajectory trajectory, Outcome outcome, const std::string& reason) {
  std::vector<Submission> one;
  one.push_back({std::move(trajectory), outcome, reason});
  submit(std::move(one));
}

// All in one commit. What cannot be written because of the disk waits with its permit until it can.
void Gatekeeper::write(std::vector<Submission> submissions) {
  if (submissions.empty()) return;
  const auto started = std::chrono::steady_clock::now();
  const expected<void> durable = ledger_.accept(submissions);
  metrics_.ledger_commit(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(),
                         submissions.size());
  if (durable) {
    for (Submission& submission : submissions) accepted(std::move(submission));
  } else if (submissions.size() > 1) {
    for (Submission& submission : submissions) {  // one of them may be at fault
      std::vector<Submission> one;
      one.push_back(std::move(submission));
      write(std::move(one));
    }
  } else if (durable.error().message.find("constraint") != std::string::npos) {
    // The row itself is wrong, which is a bug: it is as if the session had never been, and the service goes on.
    log_error("gatekeeper", durable.error().message);
    submissions.front().outcome = Outcome::aborted;
    accepted(std::move(submissions.front()));
  } else {
    degraded(durable.error().message);
    unwritten_.push_back(std::move(submissions.front()));
  }
}

// What follows from a submission that is in the ledger.
void Gatekeeper::accepted(Submission submission) {
  Trajectory& trajectory = submission.trajectory;
  const TrajectoryId group = group_of(trajectory.id, settings_.recipe.grouping.size);
  --running_;
  std::optional<Trajectory> member;
  if (submission.outcome == Outcome::queued) {
    metrics_.reward(trajectory.score.total, trajectory.score.spec_version);
    renumber(trajectory, lineage_);
    member = std::move(trajectory);
  } else {
    metrics_.outcome(submission.outcome, trajectory.action_tokens());
  }
  if (auto closed = groups_.arrive(group, std::move(member))) close_group(std::move(*closed));
}

void Gatekeeper::degraded(const std::string& why) {
  if (problem_.empty()) log_error("gatekeeper", why + ": nothing new begins until the ledger can be written again");
  problem_ = why;
  metrics_.degraded(true);
}

void Gatekeeper::retry() {
  if (problem_.empty()) return;
  while (!unsettled_.empty()) {
    const Settlement& next = unsettled_.front();
    if (!ledger_.settle(next.ids, next.outcome, next.reason, next.version, next.step, next.passes)) return;
    unsettled_.pop_front();
  }
  const std::string before = std::exchange(problem_, {});
  write(std::exchange(unwritten_, {}));
  if (!problem_.empty()) return;
  log_info("gatekeeper", "the ledger can be written again, after: " + before);
  metrics_.degraded(false);
  show();
}

void Gatekeeper::prune(double unix_now) {
  constexpr int most_calls = 10;  // some 100 ms
  // Nothing stays for the sake of those that are kept as the best ones: they may be far back.
  const std::vector<CheckpointRow> checkpoints = ledger_.checkpoints();
  const std::size_t newest = std::min(checkpoints.size(), static_cast<std::size_t>(settings_.checkpoint.keep));
  const std::uint64_t oldest = newest == 0 ? 0 : checkpoints[newest - 1].step;
  const std::int64_t most_bytes = std::int64_t{settings_.state.keep_mb} << 20;
  for (int call = 0; call < most_calls; ++call) {
    const auto gone = ledger_.prune(unix_now - settings_.state.keep_days * 86400, most_bytes, oldest);
    if (!gone) return log_warning("gatekeeper", gone.error().message);
    if (*gone == 0) return;
  }
}

void Gatekeeper::expire_groups(double now) {
  for (ClosedGroup& group : groups_.expire(now)) {
    log_warning("gatekeeper", "a group waited too long and goes on with the " + std::to_string(group.members.size()) +
                                  " members it has");
    close_group(std::move(group));
  }
  show();
}

void Gatekeeper::close_group(ClosedGroup group) {
  const auto other_spec = [&](const TrajectoryPtr& member) {
    return member->score.spec_version != group.members.front()->score.spec_version;
  };
  if (group.dropped.empty() && std::any_of(group.members.begin(), group.members.end(), other_spec)) {
    group.dropped = "its members were scored under different reward specs";
  }
  if (!group.dropped.empty()) settle(group.members, Outcome::group_dropped, group.dropped);
  if (group.members.empty() || !group.dropped.empty()) return gate_.release();
  gate_.accept();
  // Live traffic goes first into a batch: its feedback came late enough.
  const auto is_live = [](const std::vector<TrajectoryPtr>& members) {
    return members.front()->environment == live_environment;
  };
  auto place = is_live(group.members) ? std::find_if_not(queue_.begin(), queue_.end(), is_live) : queue_.end();
  if (pacing_.in_turns()) {
    place = std::find_if(queue_.begin(), queue_.end(),
                         [&](const auto& other) { return other.front()->id > group.members.front()->id; });
  }
  queue_.insert(place, std::move(group.members));
}

void Gatekeeper::show() {
  const int size = settings_.recipe.grouping.size;
  metrics_.gate(capacity(), running_, gate_.queued() * size, (batch_ + pacing_.ahead()) * size);
}

}  // namespace millrace
