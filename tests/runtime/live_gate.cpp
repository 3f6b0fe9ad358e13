// Live traffic at the gate: its own bound on lag, first into a batch, and never more of it than permits.
#include <doctest/doctest.h>

#include "runtime/gatekeeper.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;

namespace {

Settings live_settings() {
  Settings settings;
  settings.batch = settings.min_batch = 2;
  settings.max_lag = 4;
  settings.live.max_lag = 8;
  settings.sessions.limit = 8;
  return settings;
}

struct World {
  TemporaryDirectory directory;
  Metrics metrics;
  Gatekeeper gate{live_settings(), 0, std::move(*Ledger::open(directory.path())), metrics};

  TrajectoryId submit(const char* environment, Version version) {
    Trajectory trajectory;
    trajectory.id = gate.acquire();
    REQUIRE(trajectory.id != 0);
    trajectory.environment = environment;
    trajectory.sequence.tokens = {1, 2};
    trajectory.sequence.mask = {0, 1};
    trajectory.sequence.behaviour = {0, -1};
    trajectory.sequence.rewards = {0, 1};
    trajectory.versions = {0, version};
    trajectory.score.total = 1;
    const TrajectoryId id = trajectory.id;
    gate.submit(std::move(trajectory), Outcome::queued, "");
    return id;
  }
  std::vector<TrajectoryId> take() {
    std::vector<TrajectoryId> ids;
    for (const auto& trajectory : gate.take(8, 0).trajectories) ids.push_back(trajectory->id);
    return ids;
  }
};

}  // namespace

TEST_CASE("live traffic goes first into a batch, in its own order") {
  World world;
  const auto self_made = world.submit("letters", 0);
  const auto first = world.submit(live_environment, 0);
  const auto second = world.submit(live_environment, 0);
  CHECK(world.take() == std::vector<TrajectoryId>{first, second});
  world.gate.published(1);
  const auto late = world.submit("letters", 1);
  CHECK(world.take() == std::vector<TrajectoryId>{self_made, late});
}

TEST_CASE("live traffic has a lag bound of its own") {
  World world;
  for (Version version = 1; version <= 8; ++version) {
    world.submit("letters", version - 1);
    world.submit("letters", version - 1);
    CHECK(world.take().size() == 2);
    world.gate.published(version);
  }
  const auto live = world.submit(live_environment, 0);  // lag 8: late feedback, still trained
  world.submit("letters", 0);                           // lag 8: stale
  const auto fresh = world.submit("letters", 8);
  CHECK(world.take() == std::vector<TrajectoryId>{live, fresh});
  CHECK(world.gate.ledger().counts().rejected == 1);
  world.gate.published(9);
  world.submit(live_environment, 0);  // lag 9
  CHECK(world.take().empty());
  CHECK(world.gate.ledger().counts().rejected == 2);
}

TEST_CASE("what is forgotten loses its words and tokens, and keeps what became of it") {
  World world;
  const auto id = world.submit(live_environment, 0);
  const auto waiting = world.submit(live_environment, 0);
  world.take();
  world.gate.published(1);
  const auto queued = world.submit(live_environment, 1);
  world.gate.forget({id});
  CHECK(world.gate.ledger().read(id));  // a service that is killed now would train it again
  CHECK(world.gate.ledger().read(id)->answer.empty());
  CheckpointRow row;
  row.name = "one";
  row.policy_version = 1;
  row.step = world.gate.step_number();
  REQUIRE(world.gate.checkpointed(row));
  const auto rows = world.gate.forget({id, waiting, queued});
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["outcome"] == "trained");
  CHECK(rows[0]["version"] == 1);
  CHECK(rows[2]["outcome"] == "expired");  // it waited, and is not trained any more
  CHECK_FALSE(world.gate.ledger().read(id));
  CHECK_FALSE(world.gate.ledger().read(queued));
  CHECK(world.take().empty());
  CHECK(world.gate.ledger().counts().trained == 2);
  CHECK(world.gate.ledger().counts().queued == 0);
  CHECK(world.gate.capacity() == 8);
}
