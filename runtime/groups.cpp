#include "runtime/groups.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace millrace {

namespace {

double reward_of(const Trajectory& trajectory) {
  const auto& rewards = trajectory.sequence.rewards;
  return std::accumulate(rewards.begin(), rewards.end(), 0.0);
}

}  // namespace

double overlong_penalty(std::size_t action_tokens, std::size_t limit, double share) {
  const double margin = share * static_cast<double>(limit);
  if (margin <= 0) return 0;
  return std::clamp((static_cast<double>(action_tokens) - static_cast<double>(limit)) / margin + 1, 0.0, 1.0);
}

void Groups::open(TrajectoryId group) { open_.emplace(group, Open{grouping_.size, std::nullopt, {}}); }

void Groups::reopen(TrajectoryId group, int missing, std::vector<Trajectory> members) {
  open_.emplace(group, Open{missing, std::numeric_limits<double>::infinity(), std::move(members)});
}

void Groups::begin(TrajectoryId group) { open_.at(group).since.reset(); }

std::optional<ClosedGroup> Groups::arrive(TrajectoryId group, std::optional<Trajectory> member) {
  const auto found = open_.find(group);
  if (found == open_.end()) return std::nullopt;
  if (member) found->second.members.push_back(std::move(*member));
  if (--found->second.missing > 0) return std::nullopt;
  std::vector<Trajectory> members = std::move(found->second.members);
  open_.erase(found);
  return close(std::move(members));
}

std::vector<ClosedGroup> Groups::expire(double now) {
  std::vector<ClosedGroup> closed;
  for (auto group = open_.begin(); group != open_.end();) {
    Open& open = group->second;
    if (!open.since) open.since = now;
    if (grouping_.size == 1 || now - *open.since < grouping_.max_wait_s) {
      ++group;
      continue;
    }
    closed.push_back(close(std::move(open.members)));
    group = open_.erase(group);
  }
  return closed;
}

std::vector<TrajectoryId> Groups::waiting() const {
  std::vector<TrajectoryId> ids;
  for (const auto& [group, open] : open_) {
    for (const Trajectory& member : open.members) ids.push_back(member.id);
  }
  return ids;
}

void Groups::filter(const std::function<bool(Trajectory& member)>& keep) {
  for (auto& [group, open] : open_) {
    std::erase_if(open.members, [&](Trajectory& member) { return !keep(member); });
  }
}

ClosedGroup Groups::close(std::vector<Trajectory> members) const {
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  ClosedGroup closed;
  std::vector<double> rewards;
  bool all_equal = true;
  for (Trajectory& member : members) {
    all_equal = all_equal && reward_of(member) == reward_of(members.front());
    const double penalty = overlong_penalty(member.action_tokens(), token_limit_, grouping_.overlong_share);
    member.shaped_reward = reward_of(member) - penalty;
    rewards.push_back(member.shaped_reward);
  }
  if (grouping_.size > 1 && needs_others_ && members.size() == 1)
    closed.dropped = "no other member of its group came in";
  if (grouping_.drop_equal && all_equal) closed.dropped = "all members of its group got the same reward";
  for (Trajectory& member : members) {
    if (needs_others_) member.group_rewards = rewards;
    closed.members.push_back(std::make_shared<const Trajectory>(std::move(member)));
  }
  return closed;
}

}  // namespace millrace
