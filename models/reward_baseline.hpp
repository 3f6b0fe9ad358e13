#pragma once
// What stands in for a critic where a reward is compared with its group or with the last ones: one advantage a
// trajectory, the same at each of its action tokens. No Torch in sight.
#include <span>
#include <vector>

#include "config/recipe.hpp"
#include "models/learner_image.hpp"
#include "models/objectives/running_mean.hpp"
#include "models/objectives/running_rms.hpp"
#include "models/sequence.hpp"

namespace millrace {

class RewardBaseline {
 public:
  explicit RewardBaseline(const Baseline& baseline);  // kind: group or running_mean

  // [tokens], 0 where mask is 0. `reward` is the trajectory's own, `group` that of all members of its group, itself
  // included (read where the baseline is the group). Where the reward is not finite the advantages are NaN at the
  // actions, so that the policy learner leaves the trajectory out, and nothing else has changed.
  std::vector<float> advantages(const Sequence& sequence, double reward, std::span<const double> group);
  void step();  // the batch is complete

  // For checkpoints: the state at the start of the open batch.
  LearnerImagePtr image() const;
  expected<void> restore(std::span<const TensorView> image);  // forgets the open batch

 private:
  bool of_group_;
  RunningMean mean_, mean_at_start_;
  RunningRms rms_;  // fixed within a batch; groups normalise themselves
  double squares_ = 0, tokens_ = 0;
};

}  // namespace millrace
