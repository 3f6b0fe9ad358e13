#include "actors/permits.hpp"

#include <algorithm>
#include <utility>

namespace millrace {

bool Permits::wanted() const {
  return std::any_of(waiting_.begin(), waiting_.end(), [](const auto& queue) { return !queue.empty(); });
}

void Permits::give(TrajectoryId id) {
  auto& queue = *std::find_if(waiting_.begin(), waiting_.end(), [](const auto& asks) { return !asks.empty(); });
  Ask next = std::move(queue.front());
  queue.pop_front();
  next.promise.deliver(id);
  holders_.emplace(id, std::move(next.asker));
}

std::size_t Permits::newly_waiting() {
  std::size_t waiting = 0;
  for (const auto& queue : waiting_) waiting += queue.size();
  return std::min(std::exchange(asked_, 0), waiting);
}

bool Permits::take_back(TrajectoryId id) { return holders_.erase(id) > 0; }

std::vector<Permits::Lost> Permits::bury(const caf::actor_addr& asker) {
  watched_.erase(asker);
  for (auto& queue : waiting_) std::erase_if(queue, [&](const Ask& ask) { return ask.asker.address == asker; });
  std::vector<Lost> had;
  std::erase_if(holders_, [&](const auto& held) {
    const bool lost = held.second.address == asker;
    if (lost) had.push_back({held.first, held.second.turn});
    return lost;
  });
  std::sort(had.begin(), had.end(), [](const Lost& a, const Lost& b) { return a.id < b.id; });
  return had;
}

}  // namespace millrace
