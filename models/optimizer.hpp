#pragma once
// AdamW (arXiv 1711.05101) over a list of float32 tensors, in one pass over memory. Where the new weights go is the
// caller's choice: over the old ones, or beside them, where somebody still reads those.
#include <cstdint>
#include <vector>

#include <ATen/ATen.h>

namespace millrace {

struct AdamWSettings {
  double lr = 1e-6;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double weight_decay = 0;
  double epsilon = 1e-8;
};

class AdamW {
 public:
  // Moments start at zero, one pair for each parameter, beside it. Only shapes and devices are looked at.
  AdamW(AdamWSettings settings, const std::vector<at::Tensor>& parameters);

  // next = AdamW(current, scale * gradients). next[i] may be current[i], or gradients[i]; where it is not, the gradient
  // is zero afterwards.
  // All tensors are contiguous float32; another layout is a bug and throws.
  void step(const std::vector<at::Tensor>& current, const std::vector<at::Tensor>& gradients, double scale,
            const std::vector<at::Tensor>& next);

  double learning_rate() const { return settings_.lr; }
  void slow_down(double factor) { settings_.lr *= factor; }

  // For checkpoints. The moments are handles: their memory may be written between two steps.
  std::int64_t steps() const { return steps_; }
  const std::vector<at::Tensor>& means() const { return mean_; }
  const std::vector<at::Tensor>& variances() const { return variance_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  AdamWSettings settings_;
  std::vector<at::Tensor> mean_, variance_;  // first and second moment
  std::int64_t steps_ = 0;
};

// Euclidean norm of all gradients together; not finite as soon as one entry is not.
double global_norm(const std::vector<at::Tensor>& gradients);

// The factor that brings a norm down to the limit: 1 where it is below.
double clip_factor(double norm, double limit);

}  // namespace millrace
