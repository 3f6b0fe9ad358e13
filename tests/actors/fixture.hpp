#pragma once
// Actors under a scheduler that runs when the test says so, in one thread: every schedule is the same each time.
#include <doctest/doctest.h>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/protocol/interfaces.hpp"

namespace millrace {

class ActorFixture {
 public:
  ActorFixture()
      : system(configure(config)),
        scheduler(dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler())),
        self(system) {}
  ~ActorFixture() { stop(); }

  // Ends all actors. A world whose members they use calls it in its own destructor, before those are gone.
  void stop() {
    for (const caf::actor& actor : started) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    started.clear();
    run();
  }

  void run() { scheduler.run(); }
  void advance(std::chrono::milliseconds time) {
    scheduler.advance_time(time);
    run();
  }
  // Spawns an actor that ends with the test.
  template <class... Arguments>
  auto spawn(Arguments&&... arguments) {
    auto actor = system.spawn(std::forward<Arguments>(arguments)...);
    started.push_back(caf::actor_cast<caf::actor>(actor));
    return actor;
  }
  // Sends a request, runs everything, and returns the answer; fails the test when there is none.
  template <class Answer, class Actor, class... Arguments>
  Answer ask(const Actor& actor, Arguments&&... arguments) {
    auto request = self->request(actor, caf::infinite, std::forward<Arguments>(arguments)...);
    run();
    std::optional<Answer> answer;
    request.receive([&](const Answer& value) { answer = value; },
                    [&](const caf::error& error) { FAIL("no answer: " << caf::to_string(error)); });
    return *answer;
  }

  caf::actor_system_config config;
  caf::actor_system system;
  caf::scheduler::test_coordinator& scheduler;
  caf::scoped_actor self;
  std::vector<caf::actor> started;

 private:
  static caf::actor_system_config& configure(caf::actor_system_config& config) {
    config.set("scheduler.policy", caf::atom("testing"));
    return config;
  }
};

}  // namespace millrace
