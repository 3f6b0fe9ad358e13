#include "runtime/lineage.hpp"

#include <algorithm>

namespace millrace {

std::optional<Version> Lineage::today(Version stamped) const {
  for (const Fork& fork : forks_) {
    if (stamped >= fork.resumed_as) continue;  // sampled after this fork
    if (stamped > fork.at && !fork.repeats) return std::nullopt;
    stamped += fork.resumed_as - fork.at;
  }
  return stamped;
}

Version Lineage::today_or_from_fork(Version stamped) const {
  for (const Fork& fork : forks_) {
    if (stamped >= fork.resumed_as) continue;
    if (stamped > fork.at && !fork.repeats) {
      stamped = fork.resumed_as - std::min(fork.resumed_as, stamped - fork.at);
    } else {
      stamped += fork.resumed_as - fork.at;
    }
  }
  return stamped;
}

bool renumber(Trajectory& trajectory, const Lineage& lineage) {
  if (lineage.forks() == 0) return true;
  bool surviving = true;
  for (std::size_t t = 0; t < trajectory.versions.size(); ++t) {
    if (!trajectory.sequence.mask[t]) continue;
    Version& version = trajectory.versions[t];
    surviving = surviving && lineage.today(version).has_value();
    version = lineage.today_or_from_fork(version);
  }
  return surviving;
}

}  // namespace millrace
