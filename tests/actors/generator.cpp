#include "actors/generator.hpp"

#include "tests/actors/fixture.hpp"

using namespace millrace;

namespace {

struct World : ActorFixture {
  Settings settings;
  Metrics metrics;
  Activity activity;
  std::shared_ptr<const Model> model;
  GeneratorActor actor;

  World() {
    settings.model.max_context = 64;
    settings.model.random.hidden = 16;
    settings.model.random.layers = 1;
    settings.model.random.heads = 2;
    settings.model.random.kv_heads = 1;
    settings.model.random.intermediate = 16;
    model = std::make_shared<const Model>(*load_model(settings.model, 1));
    actor = spawn(generator, model, settings, 1, &metrics, &activity);
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
