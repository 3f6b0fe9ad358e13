#pragma once
// Who waits for a permit to begin a session, and who has which. A permit is the id of the trajectory that its session
// will bring. Whoever lets sessions begin keeps this book: the gatekeeper, and the evaluator for those of its own.
#include <array>
#include <deque>
#include <unordered_map>
#include <vector>

#include <caf/actor_addr.hpp>
#include <caf/typed_response_promise.hpp>

#include "runtime/trajectory.hpp"

namespace millrace {

class Permits {
 public:
  using Promise = caf::typed_response_promise<TrajectoryId>;
  // Who goes first. Sessions that have ended go before new ones, so that there are no more of them than run at once.
  enum class Turn { live, next, first };

  void ask(Promise promise, caf::actor_addr asker, Turn turn);
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
  std::unordered_map<TrajectoryId, Asker> holders_;
};

}  // namespace millrace
