#pragma once
// Who waits for a permit to begin a session, and who has which. A permit is the id of the trajectory that its session
// will bring. Whoever lets sessions begin keeps this book: the gatekeeper, and the evaluator for those of its own.
#include <array>
#include <deque>
#include <set>
#include <unordered_map>
#include <vector>

#include <caf/actor_addr.hpp>
#include <caf/actor_cast.hpp>
#include <caf/typed_response_promise.hpp>

#include "runtime/trajectory.hpp"

namespace millrace {

class Permits {
 public:
  using Promise = caf::typed_response_promise<TrajectoryId>;
  // Who goes first. Sessions that have ended go before new ones, so that there are no more of them than run at once.
  enum class Turn { live, next, first };

  // For whoever has sent the message at hand to this actor, which hears of its death from now on: bury() it then.
  template <class Self>
  Promise ask(Self self, Turn turn) {
    const auto asker = caf::actor_cast<caf::actor_addr>(self->current_sender());  // before the promise takes it away
    if (turn != Turn::next && watched_.insert(asker).second) self->monitor(asker);
    auto promise = self->template make_response_promise<TrajectoryId>();
    waiting_[static_cast<std::size_t>(turn)].push_back({promise, {asker, turn}});
    ++asked_;
    return promise;
  }
  bool wanted() const;
  void give(TrajectoryId id);  // to whose turn it is; somebody must want it
  // Of the asks since the last call, how many wait.
  std::size_t newly_waiting();
  bool take_back(TrajectoryId id);  // false: it has come back already, or never was
  // One that has died asks no more. Returns the permits it had, all of them taken back.
  struct Lost {
    TrajectoryId id;
    Turn turn;  // in which it was given
  };
  std::vector<Lost> bury(const caf::actor_addr& asker);

 private:
  struct Asker {
    caf::actor_addr address;
    Turn turn;
  };
  struct Ask {
    Promise promise;
    Asker asker;
  };
  std::array<std::deque<Ask>, 3> waiting_;  // a queue for each turn
  std::size_t asked_ = 0;
  std::set<caf::actor_addr> watched_;
  std::unordered_map<TrajectoryId, Asker> holders_;
};

}  // namespace millrace
