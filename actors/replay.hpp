#pragma once
// Repeats the learners' part of what happened between two checkpoints, offline: the same trajectories in the same
// passes and batches, out of the ledger. On the same kind of machine the result is the later checkpoint bit for bit;
// with other settings or another reward spec it shows what would have become of the same data. No CAF in sight.
#include <functional>
#include <string>
#include <vector>

#include "config/expected.hpp"
#include "config/settings.hpp"

namespace millrace {

struct ReplayOptions {
  Settings settings;
  std::string from, to;         // names of checkpoints; empty: the oldest and the newest there are
  std::string spec;             // name of a reward spec to score the answers with again; empty: as they were scored
  bool counterfactual = false;  // settings or spec are not those of the time: another machine and another end are fine
};

struct ReplayedStep {
  std::uint64_t step = 0;
  std::size_t trajectories = 0;
  bool policy = false;  // not a value-only step
  double reward_mean = 0;
  double effective_sample_size = 0;  // ratio
  double masked_share = 0;
  double explained_variance = 0;
};

struct ReplayReport {
  std::string from, to;
  std::vector<ReplayedStep> steps;
  bool identical = false;
  std::string difference;  // the first array that is not the same
};

// Errors: fewer than two checkpoints, trajectories that are gone from the ledger, another machine, a recipe without a
// value model.
expected<ReplayReport> replay(const ReplayOptions& options, const std::function<void(const ReplayedStep&)>& on_step);

}  // namespace millrace
