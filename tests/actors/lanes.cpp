// Actors on the service's own scheduler: each stays on its lane's thread, and no lane sleeps while something waits.
#include "actors/lanes.hpp"

#include <doctest/doctest.h>

#include <future>
#include <set>
#include <thread>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include "actors/spawn.hpp"

using namespace millrace;

namespace {

using Threads = std::set<std::thread::id>;

// Sends a number less one to the other until there is none left; now and then it is late. One that has just been put
// into another lane may have a turn left in the one before.
caf::behavior player(caf::event_based_actor* self, Threads* seen, std::promise<void>* over) {
  return {[=](int left, const caf::actor& other) {
    if (left < 19'000) seen->insert(std::this_thread::get_id());
    if (left == 0) return over->set_value();
    if (left % 1000 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the other lane is asleep by then
    self->send(other, left - 1, caf::actor_cast<caf::actor>(self));
  }};
}

struct System {
  caf::actor_system_config config;
  caf::actor_system system{configure(config)};
};

}  // namespace

TEST_CASE("an actor stays in its lane, and what is sent from one to the other arrives") {
  System world;
  Threads first, second;
  std::promise<void> over;
  auto in_first = world.system.spawn(player, &first, &over), in_second = world.system.spawn(player, &second, &over);
  put_in_second_lane(world.system, Asked::scorer, in_second);
  caf::anon_send(in_first, 20'000, in_second);
  over.get_future().wait();
  CHECK(first.size() == 1);
  CHECK(second.size() == 1);
  CHECK(first != second);

  // Another one in its place: the one before goes back to the others.
  auto next = world.system.spawn(player, &second, &over);
  put_in_second_lane(world.system, Asked::scorer, next);
  over = std::promise<void>();
  second.clear();
  caf::anon_send(in_second, 20'000, in_first);
  over.get_future().wait();
  CHECK(second == first);
}

TEST_CASE("a system ends although there is work left") {
  System world;
  const auto forever = [](caf::event_based_actor* self) -> caf::behavior {
    return {[=](int number) { self->send(self, number); }};
  };
  for (int i = 0; i < 10; ++i) {
    const auto actor = world.system.spawn(forever);
    if (i == 0) put_in_second_lane(world.system, Asked::gatekeeper, actor);
    caf::anon_send(actor, i);
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }
}
