#pragma once
// The value model: the policy's transformer with a scalar head in place of the vocabulary's. What of it is frozen is
// the policy's own memory; the rest has float32 master weights, updated in place, for nobody else reads them.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "models/leaves.hpp"
#include "models/model.hpp"
#include "models/named_tensors.hpp"
#include "models/optimizer.hpp"
#include "models/sequence.hpp"
#include "models/transformer.hpp"

namespace millrace {

class Critic {
 public:
  Critic(const SnapshotPtr& backbone, const ValueSettings& settings);

  // Values before every action token, then those after the last token of every sequence: [action tokens + sequences].
  at::Tensor values_of(std::span<const Sequence> sequences) const;

  // Adds the gradient of sum 0.5 (V - target)^2 over the action tokens; values after the last token have no target.
  static void backward(const at::Tensor& values, const at::Tensor& targets);

  // Of the mean gradient over so many action tokens.
  double gradient_norm(double tokens) const { return global_norm(leaves_.gradients()) / tokens; }
  // One update with that mean, given its norm. False where it is not finite: it is dropped, nothing changes.
  bool update(double norm, double tokens);
  void raise(double by);  // all values, at once
  double bias() const;

  const std::vector<at::Tensor>& gradients() const { return leaves_.gradients(); }

  // What a checkpoint holds: weights and optimizer, as handles.
  void add_to(NamedTensors& tensors) const;
  // After those have been written: gradients begin anew.
  void restored(const NamedTensors& tensors);

  std::vector<float> gradient() const { return leaves_.flat_gradient(); }

 private:
  const Compute compute_;
  const Architecture architecture_;
  const bool recompute_;
  const double max_gradient_norm_;
  Leaves leaves_;
  Weights weights_;                  // leaves, and frozen tensors of the backbone: of those alone it keeps the memory
  at::Tensor head_, bias_;           // leaves [1, hidden] and [1]
  std::vector<std::string> names_;   // of the masters
  std::vector<at::Tensor> masters_;  // in the order of the leaves
  std::optional<AdamW> optimizer_;
};

}  // namespace millrace
