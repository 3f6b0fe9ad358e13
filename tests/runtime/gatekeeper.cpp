#include "tests/runtime/gatekeeper_fixture.hpp"

#include <map>
#include <random>

using namespace millrace;
using testing::trajectory, testing::World;

namespace {

Settings settings(int batch, int max_lag, int sessions) {
  Settings result;
  result.batch = batch;
  result.min_batch = batch;
  result.max_lag = max_lag;
  result.sessions.limit = sessions;
  return result;
}

// Submits a new session's trajectory, sampled by these versions.
TrajectoryId submit(World& world, const std::vector<Version>& versions) {
  const TrajectoryId id = world.gate.acquire();
  REQUIRE(id != 0);
  world.gate.submit(trajectory(id, versions), Outcome::queued, "");
  return id;
}

void check_counts(const Gatekeeper& gate) {
  testing::check_account(gate);
  CHECK(gate.ledger().counts().queued == static_cast<std::uint64_t>(gate.gate().queued()));
}

}  // namespace

TEST_CASE("a batch is handed out, published, and only then leaves the count") {
  World world(settings(2, 1, 8));
  for (int i = 0; i < 4; ++i) submit(world, {0});
  CHECK(world.gate.acquire() == 0);  // (1 + 1) * 2 are accepted and not published
  const Taken first = world.gate.take(8, 0);
  CHECK(first.trajectories.size() == 2);
  CHECK(first.last);
  CHECK(world.gate.take(8, 0).trajectories.empty());  // the next step opens when this one is published
  CHECK(world.gate.acquire() == 0);
  world.gate.published(1);
  CHECK(world.gate.gate().capacity() == 2);
  check_counts(world.gate);
  CHECK(world.gate.ledger().counts().trained == 2);
}

TEST_CASE("what was accepted by a service before is queued again, in order, and the gate counts it") {
  TemporaryDirectory directory;
  Metrics metrics;
  std::vector<TrajectoryId> ids;
  const auto open = [&](Version version) {
    return Gatekeeper(settings(2, 1, 8), version, std::move(*Ledger::open(directory.path())), metrics);
  };
  {
    Gatekeeper gate = open(0);
    for (int i = 0; i < 3; ++i) {
      ids.push_back(gate.acquire());
      gate.submit(trajectory(ids.back(), {0}), Outcome::queued, "");
    }
    CHECK(gate.take(2, 0).trajectories.size() == 2);  // of a step that never comes to its end
    CHECK(gate.gate().capacity() == 1);
  }
  Gatekeeper gate = open(0);
  check_counts(gate);
  CHECK(gate.gate().capacity() == 1);
  const Taken taken = gate.take(8, 0);
  REQUIRE(taken.trajectories.size() == 2);
  CHECK(taken.last);
  CHECK(taken.trajectories[0]->id == ids[0]);
  CHECK(taken.trajectories[1]->id == ids[1]);
}

TEST_CASE("after a fork surviving tokens keep their lag and abandoned ones are rejected, or count from the fork") {
  for (const bool train : {false, true}) {
    CAPTURE(train);
    Settings chosen = settings(1, 4, 32);
    chosen.checkpoint.abandoned = train ? "train" : "reject";
    World world(chosen);
    Gatekeeper& gate = world.gate;
    const CheckpointRow checkpoint{"v2", 2, 2, 1, 1.0};
    submit(world, {0});
    CHECK(gate.take(1, 0).last);
    gate.published(1);
    submit(world, {1});
    CHECK(gate.take(1, 0).last);
    gate.published(2);
    REQUIRE(gate.checkpointed(checkpoint));
    const TrajectoryId stepped = submit(world, {1, 2});
    CHECK(gate.take(1, 0).last);
    gate.published(3);
    const TrajectoryId abandoned = submit(world, {2, 3});
    const TrajectoryId surviving = submit(world, {0});
    const TrajectoryId running = gate.acquire();

    REQUIRE(gate.rolled_back(checkpoint, 4));
    CHECK(gate.learner_version() == 4);
    CHECK(gate.step_number() == 2);
    CHECK(gate.ledger().counts().trained == 2);
    gate.submit(trajectory(running, {3, 4}), Outcome::queued, "");
    check_counts(gate);

    std::map<TrajectoryId, Version> oldest;  // in today's counting
    for (Version version = 5;; ++version) {
      const Taken taken = gate.take(1, 0);
      if (taken.trajectories.empty()) break;
      oldest[taken.trajectories[0]->id] = taken.trajectories[0]->oldest_version();
      gate.published(version);
    }
    CHECK(oldest.at(stepped) == 3);
    CHECK(oldest.at(surviving) == 2);
    if (train) {
      CHECK(oldest.at(abandoned) == 3);
      CHECK(oldest.at(running) == 3);
    } else {
      CHECK(oldest.size() == 2);
      for (const TrajectoryId id : {abandoned, running}) {
        CHECK(gate.ledger().find(id)->at("outcome") == "rolled_back");
      }
    }
    check_counts(gate);
  }
}

TEST_CASE("a paused gate gives nothing, a draining one lets running sessions and their step finish") {
  World world(settings(2, 1, 8));
  Gatekeeper& gate = world.gate;
  submit(world, {0});
  const TrajectoryId running = gate.acquire();
  gate.set_mode(GateMode::paused);
  CHECK(gate.acquire() == 0);
  CHECK(gate.take(8, 0).trajectories.empty());
  gate.set_mode(GateMode::open);
  CHECK(gate.take(8, 0).trajectories.size() == 1);
  gate.set_mode(GateMode::draining);
  CHECK(gate.acquire() == 0);
  CHECK_FALSE(gate.drained());
  gate.submit(trajectory(running, {0}), Outcome::queued, "");
  CHECK(gate.drained());  // nobody runs any more: no new step begins
  CHECK(gate.take(8, 0).trajectories.empty());
  check_counts(gate);
}

TEST_CASE("while the gate holds no step is completed") {
  World world(settings(2, 1, 8));
  submit(world, {0});
  submit(world, {0});
  world.gate.hold(true);
  const Taken held = world.gate.take(8, 0);
  CHECK(held.trajectories.size() == 2);
  CHECK_FALSE(held.last);
  CHECK_FALSE(world.gate.take(8, 0).last);
  world.gate.hold(false);
  const Taken last = world.gate.take(8, 0);
  CHECK(last.trajectories.empty());
  CHECK(last.last);
}

TEST_CASE("lag is judged when the learner takes a trajectory, by its oldest token (B17)") {
  World world(settings(1, 3, 8));
  const TrajectoryId stale_in_queue = submit(world, {3});
  const TrajectoryId stale_in_flight = submit(world, {3, 4, 5, 6, 7});
  const TrajectoryId good = submit(world, {4, 5, 6});
  world.gate.published(7);
  const Taken taken = world.gate.take(8, 0);
  REQUIRE(taken.trajectories.size() == 1);
  CHECK(taken.trajectories[0]->id == good);
  CHECK(taken.last);
  for (const TrajectoryId id : {stale_in_queue, stale_in_flight}) {
    const auto row = world.gate.ledger().find(id);
    REQUIRE(row);
    CHECK((*row)["outcome"] == "stale");
  }
  CHECK(world.gate.gate().queued() == 1);
  check_counts(world.gate);
}

TEST_CASE("a step closes short when min_batch has waited long enough, and not before") {
  Settings few = settings(4, 4, 8);
  few.min_batch = 2;
  few.max_wait_s = 10;
  World world(few);
  submit(world, {0});
  CHECK_FALSE(world.gate.take(8, 100).last);
  CHECK_FALSE(world.gate.take(8, 111).last);  // one is less than min_batch
  submit(world, {0});
  const Taken second = world.gate.take(8, 111);
  CHECK(second.trajectories.size() == 1);
  CHECK(second.last);
  world.gate.published(1);
  submit(world, {1});
  submit(world, {1});
  CHECK_FALSE(world.gate.take(8, 200).last);
  CHECK_FALSE(world.gate.take(8, 209).last);
  const Taken none = world.gate.take(8, 210);  // nothing new, but the wait is over
  CHECK(none.trajectories.empty());
  CHECK(none.last);
}

TEST_CASE("what cannot be trained is written down with its reason and gives its permit back") {
  World world(settings(2, 0, 2));
  const std::map<Outcome, std::string> ways = {{Outcome::env_failed, "tool died"},
                                               {Outcome::score_failed, "NaN"},
                                               {Outcome::expired, "deadline"},
                                               {Outcome::invalid, "sampling"}};
  for (int round = 0; round < 50; ++round) {
    for (const auto& [outcome, reason] : ways) {
      const TrajectoryId id = world.gate.acquire();
      REQUIRE(id != 0);
      world.gate.submit(trajectory(id, {}), outcome, reason);
      const auto row = world.gate.ledger().find(id);
      REQUIRE(row);
      CHECK((*row)["outcome"] == name_of(outcome));
      CHECK((*row)["reason"] == reason);
    }
  }
  CHECK(world.gate.gate().running() == 0);
  CHECK(world.gate.gate().capacity() == 2);
  check_counts(world.gate);
}

// Sessions of random length, failures, stale trajectories, skipped and value-only steps, in any order: nothing trained
// is older than max_lag, and the gate opens again after whatever happened.
TEST_CASE("random schedules: the lag bound holds and the gate never closes for ever") {
  for (const int max_lag : {0, 1, 2, 4}) {
    for (const int sessions : {3, 8, 40}) {
      CAPTURE(max_lag);
      CAPTURE(sessions);
      constexpr int batch = 4;
      World world(settings(batch, max_lag, sessions));
      std::mt19937 random(static_cast<unsigned>(max_lag * 100 + sessions));
      const auto chance = [&](double p) { return std::uniform_real_distribution<>()(random) < p; };
      std::map<TrajectoryId, std::vector<Version>> running;
      int steps = 0;
      int idle = 0;
      std::size_t in_step = 0;
      while (steps < 60) {
        bool moved = false;
        if (const TrajectoryId id = world.gate.acquire()) {
          running[id] = {};
          moved = true;
        }
        for (auto session = running.begin(); session != running.end();) {
          session->second.push_back(world.gate.learner_version());  // one more token under the current weights
          if (!chance(0.3)) {
            ++session;
            continue;
          }
          const Outcome outcome = chance(0.1) ? Outcome::env_failed : Outcome::queued;
          world.gate.submit(trajectory(session->first, session->second), outcome, "random");
          session = running.erase(session);
          moved = true;
        }
        const Taken taken = world.gate.take(3, 0);
        for (const TrajectoryPtr& trained : taken.trajectories) {
          CHECK(world.gate.learner_version() - trained->oldest_version() <= static_cast<Version>(max_lag));
        }
        in_step += taken.trajectories.size();
        if (taken.last) {
          CHECK(in_step == batch);
          in_step = 0;
          ++steps;
          if (chance(0.15))
            world.gate.skipped("value-only step");
          else
            world.gate.published(world.gate.learner_version() + 1);
          moved = true;
        }
        idle = moved || !running.empty() || !taken.trajectories.empty() ? 0 : idle + 1;
        REQUIRE(idle < 3);  // nothing runs and nobody may start: closed for ever
      }
      check_counts(world.gate);
    }
  }
}
