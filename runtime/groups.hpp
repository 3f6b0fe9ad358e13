#pragma once
// Rollouts of one task on their way to the queue. A group closes when all its members have come in or failed, or when
// it has waited too long; one that failed neither blocks nor shifts the others. A single rollout is a group of one.
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/recipe.hpp"
#include "runtime/trajectory.hpp"

namespace millrace {

using TrajectoryPtr = std::shared_ptr<const Trajectory>;

// A group's ids are `size` consecutive ones, the first of which is 1 more than a multiple of the size.
inline TrajectoryId group_of(TrajectoryId id, int size) { return (id - 1) / static_cast<TrajectoryId>(size); }

// What an answer of that length costs near the limit, 0 to 1: it grows linearly over the last `share` of the limit
// (DAPO, equation 13). 0 where share or limit is 0.
double overlong_penalty(std::size_t action_tokens, std::size_t limit, double share);

struct ClosedGroup {
  std::vector<TrajectoryPtr> members;  // those that came in, by id; each knows what all of them were rewarded
  std::string dropped;                 // why none of them is to be trained; empty: they are
};

class Groups {
 public:
  // token_limit: action tokens a trajectory can have at most.
  Groups(const Grouping& grouping, const std::string& baseline, std::size_t token_limit)
      : grouping_(grouping), needs_others_(baseline == "group"), token_limit_(token_limit) {}

  void open(TrajectoryId group);
  bool is_open(TrajectoryId group) const { return open_.contains(group); }
  // One that a former service had opened, of which `missing` members have not come in. It cannot expire before begin().
  void reopen(TrajectoryId group, int missing, std::vector<Trajectory> members);
  void begin(TrajectoryId group);

  // A member of an open group has come in, or failed (none). Returns the group if that closed it.
  std::optional<ClosedGroup> arrive(TrajectoryId group, std::optional<Trajectory> member);
  // Closes what has been open for max_wait_s, counted from the first look after it was opened; `now` in seconds.
  std::vector<ClosedGroup> expire(double now);
  // What a group makes of its members, by the recipe.
  ClosedGroup close(std::vector<Trajectory> members) const;
  // Members of open groups that have come in. Those that `keep` refuses count as failed from now on.
  std::vector<TrajectoryId> waiting() const;
  void filter(const std::function<bool(Trajectory& member)>& keep);

 private:
  struct Open {
    int missing = 0;
    std::optional<double> since;
    std::vector<Trajectory> members;
  };

  Grouping grouping_;
  bool needs_others_;
  std::size_t token_limit_;
  std::map<TrajectoryId, Open> open_;
};

}  // namespace millrace
