// Sessions among actors that fail in every way there is: permits come back, and each failure is counted as what it was.
#include "actors/gatekeeper.hpp"
#include "actors/session_host.hpp"
#include "tests/actors/fixture.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;

namespace {

// An environment whose behaviour depends on the number of its episode.
enum class Kind { good, reset_fails, step_fails, throws };

class ScriptedEnvironment : public Environment {
 public:
  explicit ScriptedEnvironment(Kind kind) : kind_(kind) {}
  expected<Task> reset(std::uint64_t) override {
    if (kind_ == Kind::reset_fails) return fail("no task");
    return Task{{{"user", "go"}}, "go", ""};
  }
  expected<Observation> step(const std::string&) override {
    if (kind_ == Kind::step_fails) return fail("tool died");
    if (kind_ == Kind::throws) throw std::runtime_error("a bug");
    return Observation{};
  }

 private:
  Kind kind_;
};

// Answers every turn at once with one token of version 0, or not at all, or with an error.
enum class Answering { well, never, with_error };

GeneratorActor::behavior_type fake_generator(GeneratorActor::pointer self, Answering answering) {
  return {
      [=](generate_atom, const TurnRequest&) {
        auto promise = self->make_response_promise<TurnReply>();
        FinishedTurn turn;
        turn.tokens = {'a'};
        turn.logp = {-1};
        turn.versions = {0};
        if (answering == Answering::well) promise.deliver(TurnReply(turn));
        if (answering == Answering::with_error)
          promise.deliver(TurnReply(tl::unexpect, Error{"prompt_too_long: 9 tokens"}));
        return promise;
      },
      [](weights_atom, const SnapshotPtr&) {},
      [](good_atom) {},
      [](step_atom) {},
  };
}

ScorerActor::behavior_type fake_scorer(ScorerActor::pointer, bool works) {
  return {
      [works](score_atom, const ScoreRequest&) -> ScoreReply {
        if (!works) return fail("reward is not finite");
        return Score{0.5, {}, "test", 1};
      },
      [](score_atom, std::uint64_t, const ScoreReply&) {},
      [](spec_atom) { return SpecInfo{}; },
      [](spec_atom, const SpecChange&) { return SpecReply{}; },
      [](history_atom) { return nlohmann::json(); },
      [](expire_atom, std::uint64_t) {},
  };
}

struct World : ActorFixture {
  TemporaryDirectory directory;
  Metrics metrics;
  GatekeeperActor gate;

  World(Kind kind, Answering answering = Answering::well, bool scorer_works = true) {
    Settings settings;
    settings.batch = settings.min_batch = 4;
    settings.max_lag = 0;
    settings.sessions.limit = 4;
    settings.environment.deadline_s = 5;
    gate = spawn(gatekeeper, std::make_shared<Ledger>(std::move(*Ledger::open(directory.path()))), Version{0},
                 std::uint64_t{0}, settings, &metrics);
    auto setup = std::make_shared<SessionSetup>();
    setup->permits = gate;
    setup->generator = spawn(fake_generator, answering);
    setup->scorer = spawn(fake_scorer, scorer_works);
    setup->tokenizer = std::make_shared<const Tokenizer>(Tokenizer::bytes());
    setup->make_environment = [kind] { return std::make_unique<ScriptedEnvironment>(kind); };
    setup->settings = settings;
    setup->metrics = &metrics;
    host = spawn(session_host, std::shared_ptr<const SessionSetup>(setup));
  }
  ~World() { stop(); }
  SessionHostActor host;

  GateStatus status() { return ask<GateStatus>(gate, status_atom_v); }
  nlohmann::json newest() {
    TrajectoryQuery query;
    query.limit = 1;
    return ask<nlohmann::json>(gate, list_atom_v, query).at(0);
  }
  // Failing sessions are followed by new ones for ever: look at the first so many messages.
  void run_some() {
    self->send(host, start_atom_v);
    for (int i = 0; i < 250 && scheduler.has_job(); ++i) scheduler.run_once();
  }
};

}  // namespace

TEST_CASE("whoever asks the gatekeeper sees what was brought before, although submissions share a commit") {
  World world(Kind::good);
  // Both messages lie in the mailbox before the gatekeeper reads the first.
  const auto bring = [&] {
    FinishedSession finished;
    finished.trajectory.id = world.ask<TrajectoryId>(world.gate, permit_atom_v);
    finished.trajectory.task = "a secret";
    finished.outcome = Outcome::env_failed;
    world.self->send(world.gate, submit_atom_v, finished);
    return finished.trajectory.id;
  };
  bring();
  CHECK(world.status().counts.accepted == 1);
  const TrajectoryId id = bring();
  TrajectoryQuery query;
  query.id = id;
  CHECK(world.ask<nlohmann::json>(world.gate, list_atom_v, query)["task"] == "a secret");
  query.id = bring();
  CHECK(world.ask<nlohmann::json>(world.gate, forget_atom_v, nlohmann::json{query.id}).size() == 1);
  CHECK(world.ask<nlohmann::json>(world.gate, list_atom_v, query)["task"] == "");
}

TEST_CASE("good sessions fill the queue up to the gate's capacity and wait there") {
  World world(Kind::good);
  world.self->send(world.host, start_atom_v);
  world.run();
  GateStatus status = world.status();
  CHECK(status.counts.queued == 4);
  CHECK(status.running == 0);
  CHECK(status.capacity == 0);
  CHECK(world.newest()["reward"] == 0.5);

  // The learner takes them, publishes, and the gate opens for exactly one more batch.
  const Taken taken = world.ask<Taken>(world.gate, take_atom_v, 4);
  CHECK(taken.trajectories.size() == 4);
  CHECK(taken.last);
  CHECK(taken.trajectories[0]->sequence.rewards.back() == doctest::Approx(0.5));
  world.self->send(world.gate, published_atom_v, Version{1});
  world.run();
  status = world.status();
  CHECK(status.counts.trained == 4);
  CHECK(status.counts.accepted == status.counts.trained + status.counts.queued + status.counts.rejected);
  CHECK(status.policy_version == 1);
}

TEST_CASE("an actor is there for one session after another; one that dies in between is not asked again") {
  World world(Kind::good);
  const SessionHostState& host = dynamic_cast<SessionHostActor::stateful_pointer<SessionHostState>>(
                                     caf::actor_cast<caf::abstract_actor*>(world.host))
                                     ->state;
  world.self->send(world.host, start_atom_v);
  world.run();
  const std::size_t before = host.seats.size();
  REQUIRE(before >= 2);
  CHECK(before <= 5);  // as many as can run, and the next one
  const auto kill = [&](bool newest) {
    const auto seat = std::find_if(host.seats.begin(), host.seats.end(),
                                   [&](const auto& entry) { return (entry.first == host.newest) == newest; });
    world.self->send_exit(seat->second.session, caf::exit_reason::kill);
    world.run();
  };
  kill(false);
  CHECK(host.seats.size() == before - 1);
  kill(true);
  CHECK(host.seats.size() == before - 1);  // there is another that waits to come in
  CHECK(world.ask<Taken>(world.gate, take_atom_v, 4).last);
  world.self->send(world.gate, published_atom_v, Version{1});
  world.run();
  const GateStatus status = world.status();
  CHECK(status.counts.queued == 4);  // nobody waits for the dead ones
  CHECK(status.running == 0);
  CHECK(host.seats.size() <= 5);
}

TEST_CASE("permits go to live traffic first, then to sessions that have just ended, then to new ones") {
  World world(Kind::good);
  std::vector<TrajectoryId> given;
  for (int i = 0; i < 4; ++i) given.push_back(world.ask<TrajectoryId>(world.gate, permit_atom_v));
  const auto bring = [&](std::size_t which) {
    FinishedSession finished;
    finished.trajectory.id = given[which];
    finished.outcome = Outcome::env_failed;
    return finished;
  };
  std::string order;
  const auto note = [&](auto request, char who) {
    return [&order, who, request = std::make_shared<decltype(request)>(std::move(request))] {
      request->receive([&](TrajectoryId) { order += who; },
                       [](const caf::error& error) { FAIL(caf::to_string(error)); });
    };
  };
  const auto first = note(world.self->request(world.gate, caf::infinite, permit_atom_v), 'f');
  const auto next = note(world.self->request(world.gate, caf::infinite, submit_atom_v, permit_atom_v, bring(0)), 'n');
  const auto live = note(world.self->request(world.gate, caf::infinite, permit_atom_v, live_atom_v), 'l');
  const auto waiting = [&] { return world.self->mailbox().size(); };
  world.run();
  REQUIRE(waiting() == 1);
  live();
  world.self->send(world.gate, submit_atom_v, bring(1));
  world.run();
  REQUIRE(waiting() == 1);
  next();
  world.self->send(world.gate, submit_atom_v, bring(2));
  world.run();
  REQUIRE(waiting() == 1);
  first();
  CHECK(order == "lnf");
}

TEST_CASE("a failure is counted as what it was, is never a zero reward, and its permit comes back") {
  struct Case {
    const char* outcome;
    World world;
  };
  Case cases[] = {{"env_failed", World(Kind::reset_fails)},
                  {"env_failed", World(Kind::step_fails)},
                  {"env_failed", World(Kind::throws)},
                  {"invalid", World(Kind::good, Answering::with_error)},
                  {"score_failed", World(Kind::good, Answering::well, false)}};
  for (Case& failing : cases) {
    CAPTURE(failing.outcome);
    failing.world.run_some();
    TrajectoryQuery query;
    query.limit = 1000;
    auto request = failing.world.self->request(failing.world.gate, caf::infinite, list_atom_v, query);
    for (int i = 0; i < 50; ++i) failing.world.scheduler.run_once();
    nlohmann::json rows;
    request.receive([&](const nlohmann::json& found) { rows = found; }, [](const caf::error&) {});
    CHECK(rows.size() > 10);  // many more than there are permits
    for (const auto& row : rows) CHECK(row["outcome"] == failing.outcome);
  }
}

TEST_CASE("a session that gets no answer ends at its deadline") {
  World world(Kind::good, Answering::never);
  world.self->send(world.host, start_atom_v);
  world.run();
  CHECK(world.status().running == 4);
  world.advance(std::chrono::milliseconds(4900));
  CHECK(world.status().counts.rejected == 0);
  world.advance(std::chrono::milliseconds(1100));  // its host looks every second
  const GateStatus status = world.status();
  CHECK(status.counts.rejected == 4);
  CHECK(world.newest()["outcome"] == "expired");
  CHECK(status.running == 4);  // the next four
}

TEST_CASE("a session that hangs is left: its permit comes back, once") {
  World world(Kind::good, Answering::never);
  world.self->send(world.host, start_atom_v);
  world.run();
  world.advance(std::chrono::milliseconds(8000));  // its host looks when it has heard nothing for long
  const GateStatus status = world.status();
  CHECK(status.counts.rejected == 4);
  CHECK(world.newest()["reason"] == "hangs beyond its deadline");
  CHECK(status.running == 4);  // the next four
}

TEST_CASE("no session outlives its host, and all permits come back") {
  World world(Kind::good, Answering::never);
  world.self->send(world.host, start_atom_v);
  world.run();
  CHECK(world.status().running == 4);
  world.self->send_exit(world.host, caf::exit_reason::kill);
  world.run();
  const GateStatus status = world.status();
  CHECK(status.running == 0);
  CHECK(status.capacity == 4);
  CHECK(world.newest()["outcome"] == "aborted");
}

TEST_CASE("a thousand sessions that throw, fail and hang leave every permit where it was (B23)") {
  World world(Kind::throws);
  world.self->send(world.host, start_atom_v);
  for (int i = 0; i < 20000 && world.scheduler.has_job(); ++i) world.scheduler.run_once();
  auto request = world.self->request(world.gate, caf::infinite, status_atom_v);
  GateStatus status;
  for (int i = 0; i < 100; ++i) world.scheduler.run_once();
  request.receive([&](const GateStatus& answer) { status = answer; }, [](const caf::error&) {});
  CHECK(status.counts.rejected > 1000);
  CHECK(status.counts.queued == 0);
  CHECK(status.running + status.capacity == 4);  // running sessions and free places: not one has leaked
}
