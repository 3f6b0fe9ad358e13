// Lockstep at the gatekeeper: which policy samples which trajectory, and which batch learns from it, follows from the
// ids alone, whatever order sessions end in and whenever the service is killed.
#include <map>
#include <optional>
#include <random>

#include <doctest/doctest.h>

#include "runtime/gatekeeper.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;

namespace {

constexpr std::uint64_t value_only_steps = 2;

Trajectory trajectory(TrajectoryId id, Version version) {
  Trajectory result;
  result.id = id;
  result.environment = "test";
  result.sequence.tokens = {1, 2};
  result.sequence.mask = {0, 1};
  result.sequence.behaviour = {0, -1};
  result.sequence.rewards = {0, 0};
  result.versions = {0, version};
  result.ending = Ending::terminated;
  result.score.spec = "test";
  return result;
}

// A service whose policy is known by the number of batches it has learned from.
struct Service {
  TemporaryDirectory directory;
  Metrics metrics;
  Settings settings;
  std::optional<Gatekeeper> gate;
  std::map<TrajectoryId, std::uint64_t> running;  // with the policy that samples it
  std::vector<TrajectoryId> open;                 // the batch in the making
  std::mt19937 random;

  std::map<TrajectoryId, std::uint64_t> sampled_by;
  std::map<std::uint64_t, std::vector<TrajectoryId>> batches;

  Service(int max_lag, int sessions, unsigned seed, int group = 1) : random(seed) {
    settings.pacing = "lockstep";
    settings.recipe.grouping.size = group;
    settings.batch = settings.min_batch = 6;
    settings.max_lag = max_lag;
    settings.sessions.limit = sessions;
    start();
  }

  bool chance(double p) { return std::uniform_real_distribution<>()(random) < p; }

  void start() {
    gate.reset();
    running.clear();
    open.clear();
    Ledger ledger = std::move(*Ledger::open(directory.path()));
    const LedgerPast past = *ledger.begin_incarnation(1);
    const auto checkpoints = ledger.checkpoints();
    const Version version = past.clean ? 0 : past.published + 2;
    if (!past.clean) {
      REQUIRE(ledger.fork(checkpoints.empty() ? CheckpointRow{} : checkpoints.front(), version, true));
    }
    gate.emplace(settings, version, std::move(ledger), metrics);
  }

  void sessions() {
    while (const TrajectoryId id = gate->acquire()) {
      running[id] = gate->step_number();
      if (chance(0.3)) break;
    }
    std::erase_if(running, [&](const auto& session) {
      const auto [id, policy] = session;
      if (!chance(0.3)) return false;
      CHECK(policy == gate->step_number());  // nothing was published while it ran
      const bool fails = id % 7 == 0;
      gate->submit(trajectory(id, gate->learner_version()), fails ? Outcome::env_failed : Outcome::queued, "");
      if (!fails) CHECK(sampled_by.emplace(id, policy).first->second == policy);
      return true;
    });
  }

  void learn() {
    const Taken taken = gate->take(4, 0);
    for (const TrajectoryPtr& next : taken.trajectories) {
      CHECK(gate->learner_version() - next->oldest_version() <= static_cast<Version>(std::min(1, settings.max_lag)));
      open.push_back(next->id);
    }
    if (!taken.last) return;
    CHECK(batches.emplace(gate->step_number(), open).first->second == open);
    open.clear();
    if (gate->step_number() < value_only_steps) return gate->skipped("value-only step");
    gate->published(gate->learner_version() + 1);
    if (gate->step_number() < gate->checkpointed_step() + 3 || chance(0.3)) return;
    const std::string name = "v" + std::to_string(gate->learner_version());
    REQUIRE(gate->checkpointed({name, gate->learner_version(), gate->step_number(), 1, 1.0}));
  }

  void run(std::uint64_t steps, double killed) {
    for (int round = 0; gate->step_number() < steps; ++round) {
      REQUIRE(round < 100'000);  // nothing runs and nobody may start: closed for ever
      if (chance(killed)) start();
      chance(0.5) ? sessions() : learn();
    }
  }
};

}  // namespace

TEST_CASE("lockstep: a batch is made while one is trained; a step waits for every session that may run") {
  Service service(4, 100, 1);
  Gatekeeper& gate = *service.gate;
  const auto start_all = [&] {
    std::vector<TrajectoryId> ids;
    while (const TrajectoryId id = gate.acquire()) ids.push_back(id);
    return ids;
  };
  const auto submit = [&](TrajectoryId id) {
    gate.submit(trajectory(id, gate.learner_version()), Outcome::queued, "");
  };
  const auto first = start_all();
  REQUIRE(first.size() == 12);
  for (std::size_t i = first.size(); i-- > 1;) submit(first[i]);
  CHECK(gate.take(100, 0).trajectories.empty());  // the first one would belong into the batch
  submit(first[0]);
  const Taken taken = gate.take(100, 0);
  REQUIRE(taken.trajectories.size() == 6);
  CHECK(taken.last);
  for (std::size_t i = 0; i < 6; ++i) CHECK(taken.trajectories[i]->id == first[i]);  // by id, not by arrival
  CHECK(start_all().empty());
  gate.published(1);
  CHECK(start_all().size() == 6);
  CHECK(gate.take(100, 0).trajectories.size() == 6);
  CHECK_FALSE(gate.take(100, 0).last);
}

TEST_CASE("lockstep: a run that is killed again and again makes the very batches of one that is not") {
  for (const int max_lag : {0, 1, 4}) {
    for (const auto& [sessions, group] : {std::pair{2, 1}, {6, 1}, {40, 1}, {2, 2}, {6, 3}, {40, 3}}) {
      CAPTURE(max_lag);
      CAPTURE(sessions);
      CAPTURE(group);
      Service straight(max_lag, sessions, 1, group);
      straight.run(20, 0);
      for (unsigned seed = 2; seed < 5; ++seed) {
        CAPTURE(seed);
        Service killed(max_lag, sessions, seed, group);
        killed.run(20, 0.02);
        CHECK(killed.batches == straight.batches);
        for (const auto& [step, batch] : straight.batches) {
          for (const TrajectoryId id : batch) CHECK(killed.sampled_by.at(id) == straight.sampled_by.at(id));
        }
      }
    }
  }
}
