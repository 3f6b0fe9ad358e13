#pragma once
// Several services that learn as one: each makes trajectories of its own, and at every step their gradients are added
// up, so that all of them publish the very same weights. Gradients travel by c10d: from CPUs by Gloo over TCP, from
// GPUs by NCCL.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/expected.hpp"
#include "config/settings.hpp"

namespace at {
class Tensor;
}

namespace millrace {

// What one learner shares with its like in the other services. All of them make the same calls in the same order; a
// call waits for the others, and throws std::runtime_error when one of them has gone or does not come.
class Collective {
 public:
  struct Group;
  Collective(std::unique_ptr<Group> group, const ReplicaSettings& settings);
  ~Collective();

  // Adds each tensor up over all replicas, in place. Every replica ends with the same bits.
  void sum(const std::vector<at::Tensor>& tensors);
  // The same, and the sums of some numbers beside them.
  std::vector<double> sum(std::vector<at::Tensor> tensors, const std::vector<double>& numbers);
  // What each replica says, by rank.
  std::vector<std::int64_t> gather(std::int64_t number);

  // Every replica has computed this from the same sums. Throws where they differ: their weights would come apart.
  void check_equal(double number);

  int replicas() const { return settings_.count; }
  void on_wait(std::function<void(bool waiting)> told) { on_wait_ = std::move(told); }

 private:
  std::unique_ptr<Group> group_;
  const ReplicaSettings settings_;
  std::function<void(bool waiting)> on_wait_;  // before and after it waits for the others
};

// The way into the group: one service keeps its address book, all others call there.
class Replicas {
 public:
  struct Store;
  // Waits until all have come. Errors: nobody answers, they are not all there in time.
  static expected<Replicas> join(const ReplicaSettings& settings);
  Replicas(Replicas&&) noexcept;
  ~Replicas();

  // Opens a channel for those of the same name in the other services, for tensors on that device ("cpu", "cuda:0").
  expected<std::shared_ptr<Collective>> open(const std::string& name, const std::string& device = "cpu") const;

 private:
  Replicas(std::unique_ptr<Store> store, const ReplicaSettings& settings);
  std::unique_ptr<Store> store_;
  ReplicaSettings settings_;
};

}  // namespace millrace
