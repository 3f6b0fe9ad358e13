#pragma once
// The policy under any recipe's loss: gradients are added up as trajectories arrive and divided once, at the step, by
// the batch's action tokens (or trajectories, where the recipe averages over those). A step writes the next version's
// weights over that gradient, beside the old weights, which generators go on reading.
#include <memory>
#include <span>
#include <vector>

#include "config/settings.hpp"
#include "models/learner_image.hpp"
#include "models/model.hpp"
#include "models/objectives/ratio_histogram.hpp"
#include "models/sequence.hpp"

namespace millrace {

// Sums over action tokens, so that they can be added across passes and divided once. Named as in metrics.
struct PolicySums {
  double tokens = 0;  // action tokens
  double shares = 0;  // what loss and gradient are divided by: tokens, or trajectories
  double loss = 0;
  double masked_low = 0;                // tokens that left the gradient for a ratio too low
  double masked_high = 0;               // ... too high
  double ratio = 0, ratio_squared = 0;  // over all: effective sample size
  double kept = 0, kept_squared = 0;    // over what the band leaves
  double kl = 0;                        // r - 1 - log r: estimates KL(behaviour || policy), nats
  double entropy = 0;                   // nats
  RatioHistogram ratios;                // of r = exp(logp - behaviour)
  PolicySums& operator+=(const PolicySums& other);
  double effective_sample_size_ratio() const {
    return ratio_squared > 0 ? ratio * ratio / (tokens * ratio_squared) : 0;
  }
};

struct PolicyStep {
  SnapshotPtr weights;       // null: the step was skipped and nothing has changed
  std::string skipped;       // why: "no action tokens", "non-finite gradient"
  double gradient_norm = 0;  // before clipping, of the mean loss
  PolicySums sums;
};

class Collective;

class PolicyLearner {
 public:
  // `replicas`: those whose gradients are added to its own at each step; null: it learns alone.
  PolicyLearner(const Model& model, const PolicySettings& settings, const Recipe& recipe,
                std::shared_ptr<Collective> replicas = nullptr);
  ~PolicyLearner();

  // Forward and backward of all given trajectories in one packed pass. advantages[i] has one entry a token of
  // sequences[i], read where its mask is 1. Sequences without action tokens change nothing; nor do those with a
  // non-finite behaviour or advantage at an action: they are left out, so that they cannot spoil the others' gradient.
  // proximal[i]: log-probs under the policy at the start of the batch, for recipes that need them; a missing one is the
  // policy as it is.
  PolicySums accumulate(std::span<const Sequence> sequences, std::span<const std::vector<float>> advantages,
                        std::span<const std::vector<float>> proximal = {});

  // Log-probs of the action tokens under the policy as it is, [tokens] of each sequence, 0 where mask is 0.
  std::vector<std::vector<float>> log_probs(std::span<const Sequence> sequences) const;

  // Divides, clips, updates, and starts the next batch. The new snapshot carries `next` as its version.
  PolicyStep step(Version next);

  // Weights, moments and step count as they are after the last step. The next step waits while an image exists.
  LearnerImagePtr image();
  // Takes an image's state and forgets the open batch. The new snapshot carries `version`.
  // Errors: the image is of another model; nothing has changed then.
  expected<SnapshotPtr> restore(std::span<const TensorView> image, Version version);

  double learning_rate() const;
  void slow_down(double factor);  // steps are shorter by it from now on

  // The accumulated gradient before the division, all parameters one after the other. For tests.
  std::vector<float> gradient() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
