#pragma once
// Memory for weights to come: a learner writes the next version beside the ones that others still read.
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "models/transformer.hpp"

namespace millrace {

// All distinct tensors, in the order of for_each_tensor.
inline std::vector<at::Tensor> tensors_of(const Weights& weights, bool tied) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(weights, tied, [&](const std::string&, const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

// Tensors of the shapes of `like`, with any content.
inline Weights empty_like(const Weights& like, bool tied, at::ScalarType dtype) {
  Weights weights = like;
  for_each_tensor(weights, tied, [dtype](const std::string&, at::Tensor& tensor) {
    tensor = at::empty(tensor.sizes(), tensor.options().dtype(dtype));
  });
  if (tied) weights.head = weights.embedding;
  return weights;
}

// What a snapshot will be made of.
struct WeightSet {
  Weights weights, narrow;
};

// Memory for weights to come. A set is used again once nobody holds the snapshot that was made of it.
class WeightSets {
 public:
  // Of the shapes of `like`, with any content; with narrow weights where `dtype` is not float32.
  WeightSet take(const Snapshot& like, at::ScalarType dtype) {
    for (auto published = published_.begin(); published != published_.end(); ++published) {
      if (published->use_count() > 1) continue;
      // Whoever held it has read for the last time before letting go; what we write comes after.
      std::atomic_thread_fence(std::memory_order_acquire);
      const WeightSet again{(*published)->weights, (*published)->narrow};
      published_.erase(published);
      return again;
    }
    const bool tied = like.architecture.tied;
    return {empty_like(like.weights, tied, at::kFloat),
            dtype == at::kFloat ? Weights{} : empty_like(like.weights, tied, dtype)};
  }
  void published(SnapshotPtr snapshot) { published_.push_back(std::move(snapshot)); }

 private:
  std::vector<SnapshotPtr> published_;  // only ours: the weights a model was loaded with are never written
};

}  // namespace millrace
