// The whole service with a tiny model on its real threads, while its actors are killed.
#include "actors/spawn.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include "runtime/reward.hpp"
#include "tests/eventually.hpp"
#include "tests/rounds.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;

namespace {

Settings tiny(const std::string& state) {
  Settings settings;
  settings.batch = settings.min_batch = 4;
  settings.max_lag = 2;
  settings.sessions.limit = 6;
  settings.model.max_context = 64;
  settings.model.random.hidden = 16;
  settings.model.random.layers = 1;
  settings.model.random.heads = 2;
  settings.model.random.kv_heads = 1;
  settings.model.random.intermediate = 16;
  settings.environment.name = "letters";
  settings.generation.max_tokens = 4;
  settings.value.warmup_steps = 1;
  settings.reward.spec = "vowels";
  settings.reward.directory = MILLRACE_SOURCE_DIR "/config/rewards";
  settings.state.directory = state;
  settings.checkpoint.every_steps = 5;
  settings.supervision.backoff_s = 0;
  return settings;
}

std::size_t open_files() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

struct World {
  TemporaryDirectory directory;
  Settings settings = tiny(directory.path());
  Metrics metrics;
  Activity activity;
  EventHub events;
  std::atomic<int> steps = 0;
  std::atomic<Version> newest = 0;
  std::atomic<bool> failed = false;
  caf::actor_system_config config;
  caf::actor_system system{configure(config)};
  std::optional<caf::scoped_actor> self{std::in_place, system};
  Wiring wiring;

  explicit World(int restarts_per_minute = 1'000'000) {
    use_threads(1);
    settings.supervision.restarts_per_minute = restarts_per_minute;
    settings.threads = 1;
    const auto spec = std::make_shared<const RewardSpec>(*load_reward_spec(settings.reward.directory, "vowels"));
    const Parts parts{
        .model = std::make_shared<const Model>(*load_model(settings.model, 1)),
        .preference = Preference(spec),
        .configured = spec,
        .make_environment = *make_environment_factory(settings.environment),
        .ledger = std::make_shared<Ledger>(std::move(*Ledger::open(directory.path()))),
        .request_drain = [] {},
        .interactions = std::make_shared<Interactions>(std::move(*Interactions::open(directory.path(), settings.live))),
        .settings = settings,
        .metrics = &metrics,
        .activity = &activity,
        .pretrained = {},
        .events = &events};
    wiring = spawn_service(
        system, parts,
        [this](const StepReport& report) {
          ++steps;
          newest = report.policy_version;
        },
        [this](const std::string& what) {
          MESSAGE(what);
          failed = true;
        });
    wiring.start();
  }
  ~World() {
    wiring.stop();
    self.reset();  // it is an actor, too
    system.await_all_actors_done();
  }

  template <class Answer, class... Arguments>
  Answer ask(const GatekeeperActor& actor, Arguments&&... arguments) {
    std::optional<Answer> answer;
    (*self)
        ->request(actor, std::chrono::seconds(30), std::forward<Arguments>(arguments)...)
        .receive([&](const Answer& value) { answer = value; },
                 [&](const caf::error& error) { FAIL("no answer: " << caf::to_string(error)); });
    return *answer;
  }
  template <class Condition>
  bool wait_for(Condition condition) {
    return testing::eventually(std::chrono::seconds(30), condition);
  }
  bool more_steps(int count) {
    const int before = steps;
    return wait_for([&] { return steps >= before + count || failed; }) && !failed;
  }
  void check_counts() {
    const GateStatus status = ask<GateStatus>(wiring.gatekeeper, status_atom_v);
    CHECK(status.counts.accepted == status.counts.trained + status.counts.queued + status.counts.rejected);
  }
};

}  // namespace

TEST_CASE("each kind of actor may be killed: it is started again, permits come back, and training goes on (B18, B23)") {
  // More for a long run, whose memory counts; then with LRU_CACHE_CAPACITY=64 and ONEDNN_PRIMITIVE_CACHE_CAPACITY=64,
  // as the program itself sets them (deploy/millrace/main.cpp).
  const int rounds = testing::rounds_or(4);
  World world;
  REQUIRE(world.more_steps(3));
  const std::size_t files = open_files();
  const auto restarts = [&](const std::string& name) {
    const std::string text = world.metrics.text(), series = "millrace_actor_restarts_total{actor=\"" + name + "\"} ";
    const std::size_t at = text.find(series);
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + series.size());
  };
  std::mt19937 random(1);
  Version newest = 0;
  std::uint64_t warm = 0;  // resident bytes once everything has died a few times
  for (int round = 0; round < rounds; ++round) {
    for (const auto& [name, place] : world.wiring.places) {
      CAPTURE(name);
      const int before = restarts(name);
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
      caf::anon_send_exit(place, caf::exit_reason::kill);
      REQUIRE(world.wait_for([&] { return restarts(name) > before && world.activity.roles_missing == 0; }));
    }
    if (round == rounds / 10) warm = resident_bytes();
    if (round % 4 != 0) continue;
    REQUIRE(world.more_steps(2));
    CHECK(world.newest > newest);  // no version returns
    newest = world.newest;
    world.check_counts();
  }
  REQUIRE(world.more_steps(2));
  if (rounds >= 100) {
    const std::uint64_t now = resident_bytes();
    MESSAGE(rounds, " kills of each of ", world.wiring.places.size(), " kinds; resident bytes ", warm, " -> ", now,
            "; open files ", files, " -> ", open_files());
    CHECK(static_cast<double>(now) < 1.05 * static_cast<double>(warm));
  }
  // Nothing may start any more: all permits are back.
  world.ask<GateStatus>(world.wiring.gatekeeper, mode_atom_v, GateMode::draining);
  CHECK(world.wait_for([&] { return world.ask<GateStatus>(world.wiring.gatekeeper, status_atom_v).running == 0; }));
  world.check_counts();
  CHECK(open_files() <= files + 2);
}

TEST_CASE("what dies too often ends the service") {
  World world(3);
  REQUIRE(world.more_steps(1));
  for (int i = 0; i < 1000 && !world.failed; ++i) {
    caf::anon_send_exit(world.wiring.places.at("scorer"), caf::exit_reason::kill);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(world.wait_for([&] { return world.failed.load(); }));
}
