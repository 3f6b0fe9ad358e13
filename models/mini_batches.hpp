#pragma once
// A policy step in one or several optimizer steps. With one, gradients are added up as trajectories arrive; with more,
// the batch is kept until it is complete, then each part of it makes a step of its own. Only the last one is published.
#include <memory>
#include <span>
#include <vector>

#include "models/policy_learner.hpp"

namespace millrace {

class MiniBatches {
 public:
  // `pack`: sequences that go through the learner in one pass.
  MiniBatches(PolicyLearner& learner, const Recipe& recipe, int pack)
      : learner_(learner),
        parts_(static_cast<std::size_t>(recipe.loss.mini_batches)),
        pack_(static_cast<std::size_t>(pack)) {}

  void add(std::span<const Sequence> sequences, std::span<const std::vector<float>> advantages);

  // All steps of the batch: the weights after the last that was made, the sums and the mean gradient norm of all.
  PolicyStep step(Version next);

 private:
  PolicyLearner& learner_;
  std::size_t parts_, pack_;
  std::vector<Sequence> sequences_;  // of the open batch, where it has several parts
  std::vector<std::vector<float>> advantages_, proximal_;
};

}  // namespace millrace
