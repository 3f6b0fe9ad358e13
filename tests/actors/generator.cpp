#include "actors/generator.hpp"

#include <set>

#include <caf/send.hpp>

#include "tests/actors/fixture.hpp"

using namespace millrace;

namespace {

struct World : ActorFixture {
  Settings settings;
  Metrics metrics;
  Activity activity;
  std::shared_ptr<const Model> model;
  GeneratorActor actor;

  explicit World(double canary_share = 1, int priority = 1) {
    settings.live.priority = priority;
    settings.live.canary_share = canary_share;
    settings.model.max_context = 64;
    settings.model.random.hidden = 16;
    settings.model.random.layers = 1;
    settings.model.random.heads = 2;
    settings.model.random.kv_heads = 1;
    settings.model.random.intermediate = 16;
    model = std::make_shared<const Model>(*load_model(settings.model, 1));
    actor = spawn(generator, model, model->weights, settings, 1, &metrics, &activity);
  }
  ~World() { stop(); }
  TurnRequest request(int max_tokens, std::uint64_t seed) const {
    TurnRequest turn;
    turn.prompt = {'h', 'i'};
    turn.sampling.max_tokens = max_tokens;
    turn.sampling.seed = seed;
    return turn;
  }
};

}  // namespace

TEST_CASE("turns that arrive while others run join them, and each gets its own answer") {
  World world;
  auto first = world.self->request(world.actor, caf::infinite, generate_atom_v, world.request(20, 1));
  world.scheduler.run_once();
  for (int i = 0; i < 5; ++i) world.scheduler.run_once();
  auto second = world.self->request(world.actor, caf::infinite, generate_atom_v, world.request(3, 2));
  world.run();
  const auto check = [](std::size_t at_most) {
    return [at_most](const TurnReply& reply) {
      REQUIRE(reply);
      CHECK(reply->tokens.size() <= at_most);
      CHECK(reply->tokens.size() == reply->logp.size());
      CHECK(reply->tokens.size() == reply->versions.size());
    };
  };
  const auto unexpected_error = [](const caf::error& error) { FAIL(caf::to_string(error)); };
  first.receive(check(20), unexpected_error);
  second.receive(check(3), unexpected_error);
  CHECK(world.activity.generated_tokens > 0);
}

TEST_CASE("training stands back while an application's turn is live, by its priority") {
  const auto trained_meanwhile = [](int priority, std::size_t tokens) {
    World world(1, priority);
    TurnRequest served = world.request(static_cast<int>(tokens), 2);
    served.served_since = 1;
    [[maybe_unused]] auto training =
        world.self->request(world.actor, caf::infinite, generate_atom_v, world.request(50, 1));
    [[maybe_unused]] auto application = world.self->request(world.actor, caf::infinite, generate_atom_v, served);
    while (world.activity.served_turns == 0) world.scheduler.run_once();
    while (world.activity.served_turns > 0) world.scheduler.run_once();
    return world.activity.generated_tokens - tokens;
  };
  CHECK(trained_meanwhile(0, 30) >= 29);
  CHECK(trained_meanwhile(100, 30) <= 5);
}

TEST_CASE("a prompt that leaves no room is refused at once, and the generator goes on") {
  World world;
  TurnRequest long_request = world.request(4, 1);
  long_request.prompt.assign(64, 'x');
  const auto refused = world.ask<TurnReply>(world.actor, generate_atom_v, long_request);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("prompt_too_long") == 0);
  CHECK(world.ask<TurnReply>(world.actor, generate_atom_v, world.request(4, 1)).has_value());
}

TEST_CASE("a turn whose asker has died is dropped") {
  World world;
  {
    caf::scoped_actor asker(world.system);
    caf::anon_send(world.actor, weights_atom_v, world.model->weights);  // taken, not dropped turns
    asker->send(world.actor, generate_atom_v, world.request(60, 1));
    for (int i = 0; i < 3; ++i) world.scheduler.run_once();
    CHECK(world.activity.generated_tokens < 10);
  }
  world.run();
  CHECK(world.activity.generated_tokens < 10);
}

TEST_CASE("the last good policy answers whom the newest does not, until the newest is called good") {
  World world(0.5);
  const auto versions_of = [&](Answerer by) {
    TurnRequest turn = world.request(6, 3);
    turn.by = by;
    turn.served_since = 1;
    const auto reply = world.ask<TurnReply>(world.actor, generate_atom_v, turn);
    REQUIRE(reply);
    return std::set<Version>(reply->versions.begin(), reply->versions.end());
  };
  caf::anon_send(world.actor, weights_atom_v, renumbered(*world.model->weights, 5));
  world.run();
  CHECK(versions_of(Answerer::newest) == std::set<Version>{5});
  CHECK(versions_of(Answerer::good) == std::set<Version>{0});
  CHECK(world.activity.good_version == 0);
  caf::anon_send(world.actor, good_atom_v);
  world.run();
  CHECK(versions_of(Answerer::good) == std::set<Version>{5});
  CHECK(versions_of(Answerer::reference) == std::set<Version>{0});
  CHECK(world.activity.good_version == 5);
  CHECK(world.activity.served_turns == 0);
  CHECK(world.metrics.text().find("millrace_serving_first_token_seconds_count 4\n") != std::string::npos);
}

TEST_CASE("applications' turns are counted while they are live, also when their asker goes") {
  World world;
  TurnRequest turn = world.request(40, 3);
  turn.served_since = 1;
  {
    caf::scoped_actor leaver(world.system);
    leaver->send(world.actor, generate_atom_v, turn);
    world.scheduler.run_once();
    CHECK(world.activity.served_turns == 1);
  }
  world.run();
  CHECK(world.activity.served_turns == 0);
}
