// Groups and pacing at the gatekeeper: whole groups in permits and batches, random schedules.
#include <map>
#include <random>
#include <set>

#include "config/load.hpp"
#include "tests/runtime/gatekeeper_fixture.hpp"

using namespace millrace;
using testing::trajectory, testing::World;

namespace {

Settings settings_of(const char* recipe, int group, int batch, int max_lag, int sessions) {
  Settings result;
  for (const Recipe& row : recipes) {
    if (row.name == recipe) use_recipe(result, row);
  }
  result.recipe.grouping.size = group;
  result.batch = result.min_batch = batch;
  result.max_lag = max_lag;
  result.sessions.limit = sessions;
  return result;
}

Trajectory rewarded(TrajectoryId id, Version oldest, Version newest, float reward) {
  Trajectory result = trajectory(id, {oldest, newest});
  result.sequence.rewards.back() = reward;
  return result;
}

void submit(World& world, TrajectoryId id, float reward = 0, Version version = 0) {
  world.gate.submit(rewarded(id, version, version, reward), Outcome::queued, "");
}

}  // namespace

TEST_CASE("a group takes its permits together and a batch holds whole groups") {
  World world(settings_of("grpo", 4, 8, 0, 100));
  std::vector<TrajectoryId> ids;
  while (const TrajectoryId id = world.gate.acquire()) ids.push_back(id);
  REQUIRE(ids.size() == 8);
  CHECK(group_of(ids[0], 4) == group_of(ids[3], 4));
  CHECK(group_of(ids[3], 4) + 1 == group_of(ids[4], 4));
  for (std::size_t i = 0; i < 7; ++i) submit(world, ids[i], static_cast<float>(i));
  CHECK(world.gate.running() == 1);
  CHECK(world.gate.capacity() == 0);
  CHECK(world.gate.take(100, 0).trajectories.size() == 4);  // the other group is not complete
  submit(world, ids[7], 7);
  const Taken rest = world.gate.take(3, 0);
  CHECK(rest.trajectories.size() == 3);
  CHECK_FALSE(rest.last);  // one more of this step is to be handed out
  CHECK(rest.trajectories[0]->group_rewards == std::vector<double>{4, 5, 6, 7});
  CHECK(world.gate.take(3, 0).last);
  world.gate.published(1);
  CHECK(world.gate.ledger().counts().trained == 8);
  CHECK(world.gate.capacity() == 8);
}

TEST_CASE("a limit that is no multiple of the group leaves its rest unused") {
  World world(settings_of("grpo", 4, 8, 4, 11));
  int started = 0;
  while (world.gate.acquire()) ++started;
  CHECK(started == 8);
}

TEST_CASE("a failed member keeps its place until its group closes, and a short group is one of the batch") {
  World world(settings_of("grpo", 4, 8, 0, 8));
  std::vector<TrajectoryId> ids;
  while (const TrajectoryId id = world.gate.acquire()) ids.push_back(id);
  world.gate.submit(rewarded(ids[1], 0, 0, 0), Outcome::env_failed, "tool died");
  CHECK(world.gate.acquire() == 0);
  for (std::size_t i = 0; i < 8; ++i) {
    if (i != 1) submit(world, ids[i], static_cast<float>(i));
  }
  const Taken taken = world.gate.take(100, 0);
  CHECK(taken.trajectories.size() == 7);
  CHECK(taken.last);
  CHECK(taken.trajectories[0]->group_rewards == std::vector<double>{0, 2, 3});
  world.gate.published(1);
  CHECK(world.gate.capacity() == 8);
}

TEST_CASE("dapo: an all-equal group is dropped, leaves the count and is replaced") {
  World world(settings_of("dapo", 2, 2, 0, 2));
  for (int round = 0; round < 5; ++round) {
    const TrajectoryId first = world.gate.acquire(), second = world.gate.acquire();
    REQUIRE(second != 0);
    CHECK(world.gate.acquire() == 0);
    submit(world, first, 1);
    submit(world, second, 1);
    CHECK(world.outcome(first) == "group_dropped");
    CHECK(world.outcome(second) == "group_dropped");
    CHECK_FALSE(world.gate.take(2, 0).last);
  }
  const TrajectoryId first = world.gate.acquire(), second = world.gate.acquire();
  submit(world, first, 1);
  submit(world, second, 0);
  CHECK(world.gate.take(2, 0).last);
}

TEST_CASE("a group expires with a reason; its last member is turned away") {
  World world(settings_of("grpo", 2, 2, 4, 2));
  const TrajectoryId first = world.gate.acquire(), second = world.gate.acquire();
  submit(world, first, 1);
  world.gate.expire_groups(0);
  world.gate.expire_groups(600);
  CHECK(world.outcome(first) == "group_dropped");
  submit(world, second, 1);
  CHECK(world.outcome(second) == "expired");
  CHECK((*world.gate.ledger().find(second))["reason"] == "its group has closed without it");
  CHECK(world.gate.running() == 0);
  CHECK(world.gate.capacity() == 2);
}

TEST_CASE("sync: nothing starts between a full batch and its version, also with lag allowed") {
  Settings settings = settings_of("grpo", 2, 4, 8, 100);
  settings.pacing = "sync";
  World world(settings);
  for (Version version = 0; version < 3; ++version) {
    std::vector<TrajectoryId> ids;
    while (const TrajectoryId id = world.gate.acquire()) ids.push_back(id);
    REQUIRE(ids.size() == 4);
    for (const TrajectoryId id : ids) submit(world, id, static_cast<float>(id % 2), version);
    CHECK(world.gate.take(10, 0).last);
    CHECK(world.gate.acquire() == 0);
    world.gate.published(version + 1);
  }
}

// Members of random length that fail, late and stale ones, dropped groups, skipped steps, in every pacing: what is
// trained is never older than max_lag, every permit comes back, and there is always something that can happen.
TEST_CASE("random schedules of groups") {
  unsigned seed = 0;
  for (const char* recipe : {"sao", "grpo", "dapo", "vapo"}) {
    for (const char* pacing : {"async", "just_in_time", "sync", "lockstep"}) {
      for (const int max_lag : {0, 1, 3}) {
        CAPTURE(recipe);
        CAPTURE(pacing);
        CAPTURE(max_lag);
        const int group = std::string(recipe) == "sao" ? 1 : 3;
        Settings settings = settings_of(recipe, group, 6, max_lag, 13);
        settings.pacing = pacing;
        World world(settings);
        std::mt19937 random(++seed);
        const auto chance = [&](double p) { return std::uniform_real_distribution<>()(random) < p; };
        std::map<TrajectoryId, Version> running;  // with the version that sampled the first token
        std::set<TrajectoryId> trained;
        double now = 0;
        int steps = 0, idle = 0;
        while (steps < 25) {
          bool moved = false;
          ++now;
          if (const TrajectoryId id = world.gate.acquire()) {
            running[id] = world.gate.learner_version();
            moved = true;
          }
          for (auto session = running.begin(); session != running.end();) {
            if (!chance(0.3)) {
              ++session;
              continue;
            }
            const auto reward = static_cast<float>(random() % 3);
            world.gate.submit(rewarded(session->first, session->second, world.gate.learner_version(), reward),
                              chance(0.15) ? Outcome::env_failed : Outcome::queued, "random");
            session = running.erase(session);
            moved = true;
          }
          if (chance(0.01)) now += 1000;
          world.gate.expire_groups(now);
          CHECK(world.gate.running() == static_cast<int>(running.size()));
          CHECK(world.gate.running() <= 13);
          const Taken taken = world.gate.take(4, now);
          for (const TrajectoryPtr& next : taken.trajectories) {
            CHECK(world.gate.learner_version() - next->oldest_version() <= static_cast<Version>(max_lag));
            CHECK(trained.insert(next->id).second);
          }
          if (taken.last) {
            ++steps;
            chance(0.2) ? world.gate.skipped("value-only step")
                        : world.gate.published(world.gate.learner_version() + 1);
            moved = true;
          }
          idle = moved || !running.empty() || !taken.trajectories.empty() ? 0 : idle + 1;
          REQUIRE(idle < 3);  // nothing runs and nobody may start: closed for ever
        }
        testing::check_account(world.gate);
      }
    }
  }
}
