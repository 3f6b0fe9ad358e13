// What an operator may do to trajectories that wait: a shift that has them scored again or dropped, and forgetting a
// client's.
#include <algorithm>
#include <map>
#include <utility>

#include "runtime/gatekeeper.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

Trajectory scored_again(const Trajectory& old, const RewardSpec& spec, std::uint64_t version) {
  Trajectory scored = old;
  scored.score = spec.score(old.answer, old.expected);
  scored.score.spec_version = version;
  const double change = scored.score.total - old.score.total;
  scored.sequence.rewards.back() += static_cast<float>(change);
  scored.shaped_reward += change;
  return scored;
}

// A closed group's members also know the others' rewards.
std::vector<TrajectoryPtr> scored_again(const std::vector<TrajectoryPtr>& group, const RewardSpec& spec,
                                        std::uint64_t version) {
  std::vector<Trajectory> members;
  std::vector<double> rewards;
  for (const TrajectoryPtr& old : group) {
    members.push_back(scored_again(*old, spec, version));
    rewards.push_back(members.back().shaped_reward);
  }
  std::vector<TrajectoryPtr> scored;
  for (Trajectory& member : members) {
    if (!member.group_rewards.empty()) member.group_rewards = rewards;
    scored.push_back(std::make_shared<const Trajectory>(std::move(member)));
  }
  return scored;
}

}  // namespace

void Gatekeeper::shift(const RewardSpec& spec, std::uint64_t version, InFlight in_flight, double at) {
  if (in_flight == InFlight::expire) {
    expire_before_ = at;
    expire_waiting();
  } else if (in_flight == InFlight::rescore) {
    rescore_waiting(spec, version);
  }
}

void Gatekeeper::expire_waiting() {
  for (const auto& group : queue_) settle(group, Outcome::expired, preference_shift);
  gate_.leave(static_cast<int>(queue_.size()));
  queue_.clear();
  std::vector<TrajectoryPtr> members;
  groups_.filter([&](Trajectory& member) {
    members.push_back(std::make_shared<const Trajectory>(std::move(member)));
    return false;
  });
  if (!members.empty()) settle(members, Outcome::expired, preference_shift);
  show();
}

void Gatekeeper::rescore_waiting(const RewardSpec& spec, std::uint64_t version) {
  std::vector<TrajectoryPtr> all;
  std::deque<std::vector<TrajectoryPtr>> queue;
  for (const auto& group : queue_) {
    queue.push_back(scored_again(group, spec, version));
    all.insert(all.end(), queue.back().begin(), queue.back().end());
  }
  std::map<TrajectoryId, TrajectoryPtr> members;  // of open groups
  groups_.filter([&](Trajectory& member) {
    const auto scored = std::make_shared<const Trajectory>(scored_again(member, spec, version));
    members.emplace(member.id, scored);
    all.push_back(scored);
    return true;
  });
  if (auto written = ledger_.rescore(all); !written) {
    return log_error("gatekeeper", written.error().message);  // they keep the score they have
  }
  queue_ = std::move(queue);
  groups_.filter([&](Trajectory& member) {
    member = *members.at(member.id);
    return true;
  });
}

nlohmann::json Gatekeeper::forget(const std::vector<TrajectoryId>& ids) {
  std::vector<TrajectoryPtr> waiting;  // live traffic comes one by one, in groups of its own
  std::erase_if(queue_, [&](const std::vector<TrajectoryPtr>& group) {
    if (std::find(ids.begin(), ids.end(), group.front()->id) == ids.end()) return false;
    waiting.insert(waiting.end(), group.begin(), group.end());
    gate_.leave(1);
    return true;
  });
  if (!waiting.empty()) settle(waiting, Outcome::expired, "its client is forgotten");
  nlohmann::json rows = nlohmann::json::array();
  if (auto redacted = ledger_.redact(ids); !redacted) log_error("gatekeeper", redacted.error().message);
  for (const TrajectoryId id : ids) {
    const auto row = ledger_.find(id);
    if (row) rows.push_back({{"id", id}, {"outcome", row->at("outcome")}, {"version", row->at("version")}});
  }
  return rows;
}

}  // namespace millrace
