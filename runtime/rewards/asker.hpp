#pragma once
// Asks about answers on threads of its own: whoever wants a score of a remote scorer goes on with something else.
#include <functional>
#include <memory>

#include "runtime/reward.hpp"

namespace millrace {

class Asker {
 public:
  using Done = std::function<void(const expected<Score>&)>;

  explicit Asker(int parallel);  // answers that are asked about at a time
  // Waits for those that are being asked about, at most the longest "timeout_s" of their parts; the others are dropped.
  ~Asker();
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  // RewardSpec::ask; `done` hears of it once, in another thread. What is being asked already is not asked twice.
  void ask(const std::shared_ptr<const RewardSpec>& spec, const ScoredAnswer& answer, Done done);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
