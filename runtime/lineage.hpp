#pragma once
// Policy versions over rollbacks and recoveries. A number never returns: old weights are published under a new, higher
// one, and that fork divides the versions before it into those that still count and those of the abandoned lineage.
#include <optional>
#include <vector>

#include "runtime/trajectory.hpp"

namespace millrace {

// The weights of version `at` were published again as `resumed_as`. Versions in between are abandoned, or made once
// more, the same ones: what was sampled by them then counts as sampled by their successors.
struct Fork {
  Version at = 0;
  Version resumed_as = 0;
  bool repeats = false;
};

class Lineage {
 public:
  Lineage() = default;
  explicit Lineage(std::vector<Fork> forks) : forks_(std::move(forks)) {}  // oldest first
  void add(const Fork& fork) { forks_.push_back(fork); }
  std::size_t forks() const { return forks_.size(); }

  // The number that a policy has in today's counting, so that lag stays the number of batches published since: a
  // version k batches before the fork counts as k before the one it was resumed as. Nothing: it is abandoned.
  std::optional<Version> today(Version stamped) const;
  // The same for abandoned ones, too: k batches beyond the fork count as k away from it.
  Version today_or_from_fork(Version stamped) const;

 private:
  std::vector<Fork> forks_;
};

// Brings a trajectory's action tokens into today's counting. False: some of them are of an abandoned lineage; those are
// counted from its fork.
bool renumber(Trajectory& trajectory, const Lineage& lineage);

}  // namespace millrace
