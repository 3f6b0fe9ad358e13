#pragma once
// The newest published weights, for a generator that is started again.
#include <memory>
#include <mutex>
#include <utility>

#include "models/model.hpp"

namespace millrace {

class LatestWeights {
 public:
  explicit LatestWeights(SnapshotPtr weights) : weights_(std::move(weights)) {}
  void put(SnapshotPtr weights) {
    const std::lock_guard lock(mutex_);
    weights_ = std::move(weights);
  }
  SnapshotPtr get() const {
    const std::lock_guard lock(mutex_);
    return weights_;
  }

 private:
  mutable std::mutex mutex_;
  SnapshotPtr weights_;
};

}  // namespace millrace
