// The gatekeeper's part in a step: what of the queue is fresh enough for it, when it is complete, and what becomes of
// its trajectories.
#include <chrono>
#include <utility>

#include "runtime/gatekeeper.hpp"
#include "runtime/log.hpp"

namespace millrace {

// The queue's first group comes into the open step with those of its members that are fresh enough.
void Gatekeeper::judge_next_group(double now) {
  std::vector<TrajectoryPtr> stale;
  const std::size_t before = step_.size();
  for (TrajectoryPtr& member : queue_.front()) {
    const int bound = member->environment == live_environment ? settings_.live.max_lag : settings_.max_lag;
    const bool fresh =
        lag_of(learner_, member->oldest_version(), member->newest_version()).total <= static_cast<Version>(bound);
    judge(*member, fresh);
    if (fresh) {
      step_.push_back(member);
      fresh_.push_back(std::move(member));
    } else {
      stale.push_back(std::move(member));
      metrics_.gate_decision("reject", "stale");
    }
  }
  queue_.pop_front();
  if (!stale.empty()) settle(stale, Outcome::stale, "lag above max_lag");
  if (step_.size() == before) return gate_.leave(1);
  if (step_groups_++ == 0) step_started_ = now;
}

Taken Gatekeeper::take(int max, double now) {
  Taken taken;
  if (!may_take()) return taken;
  if (step_groups_ == 0 && !may_begin()) return taken;
  while (std::ssize(taken.trajectories) < max) {
    while (fresh_.empty() && !queue_.empty() && step_groups_ < batch_) judge_next_group(now);
    if (fresh_.empty()) break;
    taken.trajectories.push_back(std::move(fresh_.front()));
    fresh_.pop_front();
  }
  if (std::ssize(taken.trajectories) < max && step_groups_ < batch_) starved_ = true;
  if (!taken.trajectories.empty()) passes_.insert(passes_.end(), taken.trajectories.size(), ++pass_);
  show();
  step_complete_ = may_complete() &&
                   (step_groups_ >= batch_ || (step_groups_ >= min_batch_ && queue_.empty() && now >= step_deadline()));
  taken.last = step_complete_;
  return taken;
}

bool Gatekeeper::may_take() const {
  if (step_complete_ || steps_left_ == 0 || mode_ == GateMode::paused || !problem_.empty()) return false;
  return mode_ == GateMode::open || gate_.running() > 0;
}

bool Gatekeeper::may_begin() const {
  if (!pacing_.in_turns()) return true;
  return std::ssize(queue_) >= batch_ && (in_order_ >= batch_ || all_came_in());
}

bool Gatekeeper::may_complete() const { return !held_ && fresh_.empty() && (!pacing_.in_turns() || all_came_in()); }

double Gatekeeper::step_deadline() const {
  return step_.empty() ? std::numeric_limits<double>::infinity() : step_started_ + settings_.max_wait_s;
}

void Gatekeeper::published(Version version) {
  for (const TrajectoryPtr& trajectory : step_) {
    if (trajectory->score.spec_version != 0) metrics_.reward_lag(trajectory->score.spec_version);  // 0: feedback
    reward_.add(trajectory->score);
  }
  learner_ = version;
  --steps_left_;
  settle_step(Outcome::trained, "");
  metrics_.lifetime_trained(ledger_.counts().trained);
}

void Gatekeeper::skipped(const std::string& reason) { settle_step(Outcome::skipped, reason); }

// `step`: the batch that learned from them; 0 = they leave before they are trained.
void Gatekeeper::settle(const std::vector<TrajectoryPtr>& trajectories, Outcome outcome, const std::string& reason,
                        std::uint64_t step) {
  std::vector<TrajectoryId> ids;
  for (const TrajectoryPtr& trajectory : trajectories) {
    ids.push_back(trajectory->id);
    metrics_.outcome(outcome, trajectory->action_tokens());
  }
  const auto started = std::chrono::steady_clock::now();
  // In order: a batch must not be settled before the one before it.
  expected<void> written =
      unsettled_.empty() ? ledger_.settle(ids, outcome, reason, learner_, step, step > 0 ? passes_ : std::vector<int>())
                         : fail(problem_);
  if (!written && written.error().message.find("is not queued") != std::string::npos) {
    log_error("gatekeeper", written.error().message);  // a bug; to try again would not help
  } else if (!written) {
    degraded(written.error().message);
    unsettled_.push_back({ids, outcome, reason, learner_, step, step > 0 ? passes_ : std::vector<int>()});
  }
  metrics_.ledger_commit(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(), ids.size());
}

void Gatekeeper::settle_step(Outcome outcome, const std::string& reason) {
  settle(step_, outcome, reason, ++step_number_);
  gate_.leave(step_groups_);
  pacing_.step_over(std::exchange(starved_, false));
  gate_.allow_ahead(pacing_.ahead());
  step_.clear();
  passes_.clear();
  pass_ = 0;
  step_groups_ = 0;
  step_complete_ = false;
  in_order_ = static_cast<int>(queue_.size());
  show();
}

void Gatekeeper::judge(const Trajectory& trajectory, bool trained) {
  const std::vector<Version>& versions = trajectory.versions;
  const std::vector<std::uint8_t>& mask = trajectory.sequence.mask;
  const Version newest = trajectory.newest_version();
  // By runs of action tokens that one version sampled.
  for (std::size_t begin = 0, end = 0; begin < versions.size(); begin = end) {
    for (end = begin; end < versions.size() && versions[end] == versions[begin] && mask[end] == mask[begin];) ++end;
    if (mask[begin]) metrics_.judged(lag_of(learner_, versions[begin], newest), end - begin, trained);
  }
}

}  // namespace millrace
