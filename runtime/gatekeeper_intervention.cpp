// What an operator may do to trajectories that wait: a shift that has them scored again or dropped, and forgetting a
// client's.
#include <algorithm>
#include <utility>

#include "runtime/gatekeeper.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

// A group under another spec: its members' rewards, and what each knows of the others'.
std::vector<TrajectoryPtr> scored_again(const std::vector<TrajectoryPtr>& group, const RewardSpec& spec,
                                        std::uint64_t version) {
  std::vector<std::shared_ptr<Trajectory>> members;
  std::vector<double> rewards;
  for (const TrajectoryPtr& old : group) {
    auto member = std::make_shared<Trajectory>(*old);
    member->score = spec.score(old->answer, old->expected);
    member->score.spec_version = version;
    const double change = member->score.total - old->score.total;
    member->sequence.rewards.back() += static_cast<float>(change);
    member->shaped_reward += change;
    rewards.push_back(member->shaped_reward);
    members.push_back(std::move(member));
  }
  for (const auto& member : members) {
    if (!member->group_rewards.empty()) member->group_rewards = rewards;
  }
  return {members.begin(), members.end()};
}

}  // namespace

void Gatekeeper::shift(const RewardSpec& spec, std::uint64_t version, InFlight in_flight, double at) {
  if (in_flight == InFlight::expire) {
    expire_before_ = at;
    for (const auto& group : queue_) settle(group, Outcome::expired, preference_shift);
    gate_.leave(static_cast<int>(queue_.size()));
    queue_.clear();
    show();
  }
  if (in_flight != InFlight::rescore) return;
  std::vector<TrajectoryPtr> all;
  std::deque<std::vector<TrajectoryPtr>> rescored;
  for (const auto& group : queue_) {
    rescored.push_back(scored_again(group, spec, version));
    all.insert(all.end(), rescored.back().begin(), rescored.back().end());
  }
  if (auto written = ledger_.rescore(all); written) {
    queue_ = std::move(rescored);
  } else {
    log_error("gatekeeper", written.error().message);  // they keep the score they have
  }
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
