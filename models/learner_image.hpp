#pragma once
// A learner's whole state as named arrays, for checkpoints: weights, moments, step counts, running statistics. No Torch
// in sight. An image shows the live memory, there is no second copy: while one exists the learner goes on accumulating
// gradients, and its next step waits.
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/expected.hpp"

namespace millrace {

struct TensorView {
  std::string name;
  std::string dtype;  // as safetensors has it: F32, F64, I64
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // contiguous, little-endian
};
using TensorViews = std::vector<TensorView>;

class LearnerImage {
 public:
  // `owner` keeps the memory under the views; `released` is kept when the image is gone.
  LearnerImage(TensorViews tensors, std::shared_ptr<const void> owner, std::promise<void> released)
      : tensors_(std::move(tensors)), owner_(std::move(owner)), released_(std::move(released)) {}
  ~LearnerImage() { released_.set_value(); }
  LearnerImage(const LearnerImage&) = delete;
  LearnerImage& operator=(const LearnerImage&) = delete;

  const TensorViews& tensors() const { return tensors_; }

 private:
  TensorViews tensors_;
  std::shared_ptr<const void> owner_;
  std::promise<void> released_;
};
using LearnerImagePtr = std::shared_ptr<const LearnerImage>;

// What a learner asks before it writes what an image may show.
class ImageGate {
 public:
  std::promise<void> close() {
    wait();
    std::promise<void> released;
    image_ = released.get_future();
    return released;
  }
  void wait() {
    if (image_.valid()) image_.get();
  }

 private:
  std::future<void> image_;
};

}  // namespace millrace
