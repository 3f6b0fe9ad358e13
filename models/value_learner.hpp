#pragma once
// The critic's half of SAO. On arrival of a trajectory one forward pass gives its values, hence advantages (sent on at
// once, never recomputed), and the gradient of the first update; when the batch is complete that update is made, then
// K - 1 more passes over the same batch.
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "config/settings.hpp"
#include "models/learner_image.hpp"
#include "models/model.hpp"
#include "models/sequence.hpp"

namespace millrace {

struct Valuation {
  std::vector<float> values;      // [tokens] value before each token; read where mask is 1
  std::vector<float> advantages;  // [tokens] GAE with lambda_policy, over the running RMS; 0 where mask is 0
  std::vector<float> targets;     // [tokens] lambda_value return; 0 where mask is 0
};

struct ValueStep {
  bool skipped = false;           // no action tokens or a non-finite gradient: nothing has changed
  double loss = 0;                // 0.5 * mean over action tokens of (V - R)^2, before the first update
  double gradient_norm = 0;       // of the first update, before clipping
  double explained_variance = 0;  // values before the update, last 128 trajectories; NaN where Var(R) < 1e-8
  double advantage_rms = 1;       // the divisor of the next batch's advantages
};

class Collective;

class ValueLearner {
 public:
  // `replicas`: as in PolicyLearner.
  ValueLearner(const Model& backbone, const ValueSettings& settings, const Baseline& baseline,
               std::shared_ptr<Collective> replicas = nullptr);
  ~ValueLearner();

  // One packed pass. A sequence with a non-finite reward takes no part in anything; its advantages are NaN at its
  // actions, so that the policy learner leaves it out, too.
  std::vector<Valuation> arrive(std::span<const Sequence> sequences);
  // K updates over all that arrived since the last. `between` is called between two passes over a part of it.
  ValueStep step(const std::function<void()>& between = [] {});

  // As PolicyLearner: trained weights (frozen ones are the backbone's), moments, step count, running statistics.
  LearnerImagePtr image();
  expected<void> restore(std::span<const TensorView> image);

  // Of these trajectories' returns under the critic as it is; nothing is learned. NaN where undefined.
  double explained_variance_of(std::span<const Sequence> sequences);

  std::vector<float> gradient() const;  // accumulated, before the division; for tests

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
