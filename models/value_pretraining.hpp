#pragma once
// Trains a critic on many scored trajectories before there is a policy to train with it: the cure for its cold start
// that the SAO paper names. No Torch in sight.
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "config/expected.hpp"
#include "models/value_learner.hpp"

namespace millrace {

// The next trajectory; nothing at the end.
using SequenceSource = std::function<expected<std::optional<Sequence>>()>;

class ValuePretraining {
 public:
  ValuePretraining(ValueLearner& learner, int batch, int pack)
      : learner_(learner), batch_(static_cast<std::size_t>(batch)), pack_(static_cast<std::size_t>(pack)) {}

  // Every tenth trajectory is kept apart: it is never trained, and says what the critic is worth.
  static bool held_out(std::size_t index) { return index % 10 == 9; }

  // One batch: the updates it made, or nothing when the source has ended before there was a trajectory. `index` counts
  // the trajectories read, those kept apart included.
  expected<std::optional<ValueStep>> step(const SequenceSource& next, std::size_t& index);

 private:
  ValueLearner& learner_;
  std::size_t batch_, pack_;
};

}  // namespace millrace
