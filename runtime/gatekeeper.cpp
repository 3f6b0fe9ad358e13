#include "runtime/gatekeeper.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <utility>

#include "runtime/log.hpp"

namespace millrace {

Gatekeeper::Gatekeeper(const Settings& settings, Version learner, Ledger ledger, Metrics& metrics)
    : settings_(settings),
      learner_(learner),
      ledger_(std::move(ledger)),
      metrics_(metrics),
      gate_(settings.sessions.limit, settings.max_lag, settings.batch) {
  show();
}

TrajectoryId Gatekeeper::acquire() {
  if (!gate_.acquire()) {
    const bool full = gate_.running() >= settings_.sessions.limit;
    metrics_.gate_decision("wait", full ? "sessions" : "staleness");
    return 0;
  }
  metrics_.gate_decision("grant", "capacity");
  show();
  return ledger_.next_id();
}

void Gatekeeper::submit(Trajectory trajectory, Outcome outcome, const std::string& reason) {
  const auto started = std::chrono::steady_clock::now();
  const expected<void> durable = ledger_.accept(trajectory, outcome, reason);
  metrics_.ledger_commit(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(), 1);
  if (!durable) {
    // Not durable is not accepted: it is as if the session had never been, and the service goes on.
    log_error("gatekeeper", durable.error().message);
    metrics_.outcome(Outcome::aborted, trajectory.action_tokens());
    gate_.release();
  } else if (outcome == Outcome::queued) {
    metrics_.reward(trajectory.score.total);
    gate_.accept();
    queue_.push_back(std::make_shared<const Trajectory>(std::move(trajectory)));
  } else {
    metrics_.outcome(outcome, trajectory.action_tokens());
    gate_.release();
  }
  show();
}

Taken Gatekeeper::take(int max, double now) {
  Taken taken;
  if (step_complete_) return taken;
  std::vector<TrajectoryId> stale;
  while (!queue_.empty() && std::ssize(taken.trajectories) < max && std::ssize(step_) < settings_.batch) {
    TrajectoryPtr next = std::move(queue_.front());
    queue_.pop_front();
    const bool fresh =
        lag_of(learner_, next->oldest_version(), next->newest_version()).total <= static_cast<Version>(gate_.max_lag());
    judge(*next, fresh);
    if (fresh) {
      if (step_.empty()) step_started_ = now;
      step_.push_back(next);
      taken.trajectories.push_back(std::move(next));
    } else {
      stale.push_back(next->id);
      metrics_.outcome(Outcome::stale, next->action_tokens());
      metrics_.gate_decision("reject", "stale");
    }
  }
  if (!stale.empty()) {
    gate_.leave(static_cast<int>(stale.size()));
    if (auto written = ledger_.settle(stale, Outcome::stale, "lag above max_lag", learner_); !written) {
      log_error("gatekeeper", written.error().message);
    }
    show();
  }
  step_complete_ = std::ssize(step_) >= settings_.batch ||
                   (std::ssize(step_) >= settings_.min_batch && queue_.empty() && now >= step_deadline());
  taken.last = step_complete_;
  return taken;
}

double Gatekeeper::step_deadline() const {
  return step_.empty() ? std::numeric_limits<double>::infinity() : step_started_ + settings_.max_wait_s;
}

void Gatekeeper::published(Version version) {
  for (const TrajectoryPtr& trajectory : step_) metrics_.reward_lag(trajectory->score.spec_version);
  learner_ = version;
  settle_step(Outcome::trained, "", version);
  metrics_.lifetime_trained(ledger_.counts().trained);
}

void Gatekeeper::skipped(const std::string& reason) { settle_step(Outcome::skipped, reason, learner_); }

void Gatekeeper::close() {
  if (auto closed = ledger_.close_abandoned("the service ended before it was trained"); !closed) {
    log_error("gatekeeper", closed.error().message);
  }
}

void Gatekeeper::settle_step(Outcome outcome, const std::string& reason, Version version) {
  std::vector<TrajectoryId> ids;
  for (const TrajectoryPtr& trajectory : step_) {
    ids.push_back(trajectory->id);
    metrics_.outcome(outcome, trajectory->action_tokens());
  }
  const auto started = std::chrono::steady_clock::now();
  if (auto written = ledger_.settle(ids, outcome, reason, version); !written) {
    log_error("gatekeeper", written.error().message);
  }
  metrics_.ledger_commit(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(), ids.size());
  gate_.leave(static_cast<int>(step_.size()));
  step_.clear();
  step_complete_ = false;
  show();
}

void Gatekeeper::judge(const Trajectory& trajectory, bool trained) {
  std::map<Version, std::size_t> tokens_of;  // its action tokens by the version that sampled them
  for (std::size_t t = 0; t < trajectory.versions.size(); ++t) {
    if (trajectory.sequence.mask[t]) ++tokens_of[trajectory.versions[t]];
  }
  const Version newest = trajectory.newest_version();
  for (const auto& [version, tokens] : tokens_of) metrics_.judged(lag_of(learner_, version, newest), tokens, trained);
}

void Gatekeeper::show() {
  metrics_.gate(gate_.capacity(), gate_.running(), gate_.queued(), (settings_.max_lag + 1) * settings_.batch);
}

}  // namespace millrace
