#pragma once
// How many trajectories a second the service's own actors bring from their permits to a learner, where nothing is
// computed: `millrace bench flow`. No CAF in sight.
#include <vector>

#include "models/bench.hpp"

namespace millrace {

struct FlowOptions {
  int sessions = 64;
  double window_s = 1;  // of each of three windows, of which the median counts
};

// Session, scorer and gatekeeper are those of `serve`, with gate and metrics; generator and learners cost nothing.
// Every trajectory is built anew, about 1 KB, and travels alone. With a forgetful ledger, then with a durable one.
// The limit is what one core does of the same work without a message; beside it stands what CAF delivers without the
// work, three bare hops with as much to carry.
// Errors: no folder for the durable ledger.
expected<std::vector<Figure>> bench_flow(const FlowOptions& options);

}  // namespace millrace
