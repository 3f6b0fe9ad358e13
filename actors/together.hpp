#pragma once
// How a service finds the other replicas that it learns with (replicas.count), and agrees with them before it begins.
#include <memory>

#include "models/collective.hpp"
#include "models/model.hpp"
#include "runtime/resumption.hpp"

namespace millrace {

struct Together {
  std::shared_ptr<Collective> start, value, policy;  // null: this service learns alone

  // Runs something that asks the others. Errors: its own, and when one of the others has gone.
  template <class Work>
  auto in_step(const Work& work) const -> decltype(work(alone)) {
    if (!start) return work(alone);
    try {
      return work([this](std::int64_t number) { return start->gather(number); });
    } catch (const std::runtime_error& gone) {
      return fail(gone.what());
    }
  }
};

// Waits for the others. Errors: they do not come; they have another model, or settings with which their weights would
// not stay the same.
expected<Together> come_together(const Settings& settings, const Model& model);

}  // namespace millrace
