// A shift of the reward spec at the gatekeeper: what becomes of trajectories that wait, in the queue or for their
// group.
#include "tests/runtime/gatekeeper_fixture.hpp"

using namespace millrace;
using testing::trajectory, testing::World;

namespace {

Settings settings(int group, int batch) {
  Settings result;
  result.recipe.grouping.size = group;
  result.recipe.baseline.kind = group == 1 ? "critic" : "group";
  result.batch = result.min_batch = batch;
  result.max_lag = 4;
  result.sessions.limit = 8;
  return result;
}

// A session's trajectory as it comes from the scorer: "ab", rewarded 1.
void submit(World& world, TrajectoryId id, double created, std::uint64_t spec = 1) {
  Trajectory scored = trajectory(id, {0, 0});
  scored.sequence.rewards.back() = 1;
  scored.answer = "ab";
  scored.created = created;
  scored.score = {1.0, {{"p", 1.0, 1.0}}, "of version " + std::to_string(spec), spec};
  world.gate.submit(std::move(scored), Outcome::queued, "");
}

TrajectoryId submit(World& world, double created) {
  const TrajectoryId id = world.gate.acquire();
  REQUIRE(id != 0);
  submit(world, id, created);
  return id;
}

RewardSpec share_of(const std::string& letters) {
  return *RewardSpec::parse(
      {{"name", "likes-" + letters},
       {"parts", {{{"name", "p"}, {"kind", "letter_share"}, {"weight", 1}, {"letters", letters}}}}});
}

}  // namespace

TEST_CASE("a shift may have what waits scored again, in the ledger, too") {
  World world(settings(1, 2));
  const TrajectoryId handed_out = submit(world, 10);
  CHECK(world.gate.take(1, 0).trajectories.size() == 1);
  const TrajectoryId waiting = submit(world, 10);
  world.gate.shift(share_of("b"), 2, InFlight::rescore, 20);

  CHECK(world.gate.ledger().read(handed_out)->score.spec_version == 1);  // it is with the learner
  const Taken taken = world.gate.take(1, 0);
  REQUIRE(taken.trajectories.size() == 1);
  const auto kept = world.gate.ledger().read(waiting);
  REQUIRE_MESSAGE(kept, kept.error().message);
  for (const Trajectory& rescored : {*taken.trajectories[0], *kept}) {
    CHECK(rescored.id == waiting);
    CHECK(rescored.score.spec == "likes-b");
    CHECK(rescored.score.spec_version == 2);
    CHECK(rescored.score.total == doctest::Approx(0.5));
    CHECK(rescored.sequence.rewards == std::vector<float>{0, 0, 0.5F});
  }
  testing::check_account(world.gate);
}

TEST_CASE("a shift may drop what is in flight: what waits, and sessions that had begun") {
  World world(settings(1, 2));
  submit(world, 10);
  submit(world, 10);
  world.gate.shift(share_of("b"), 2, InFlight::expire, 20);
  CHECK(world.gate.take(8, 0).trajectories.empty());
  CHECK(world.gate.gate().queued() == 0);
  const TrajectoryId late = submit(world, 19);
  const TrajectoryId after = submit(world, 21);
  CHECK(world.row(late)["outcome"] == "expired");
  CHECK(world.row(late)["reason"] == "preference shift");
  const Taken taken = world.gate.take(8, 0);
  REQUIRE(taken.trajectories.size() == 1);
  CHECK(taken.trajectories[0]->id == after);
  CHECK(world.gate.ledger().counts().rejected == 3);
  CHECK(world.gate.gate().running() == 0);
  testing::check_account(world.gate);
}

TEST_CASE("a shift keeps scores unless it is told otherwise") {
  World world(settings(1, 2));
  submit(world, 10);
  for (const InFlight choice : {InFlight::keep, InFlight::finish}) world.gate.shift(share_of("b"), 2, choice, 20);
  CHECK(world.gate.take(8, 0).trajectories.at(0)->score.spec_version == 1);
}

TEST_CASE("a shift reaches members that wait for their group") {
  for (const InFlight choice : {InFlight::keep, InFlight::rescore, InFlight::expire}) {
    CAPTURE(name_of(choice));
    World world(settings(2, 2));
    const TrajectoryId first = submit(world, 10), second = world.gate.acquire();
    world.gate.shift(share_of("b"), 2, choice, 20);
    submit(world, second, 19, 2);  // scored by the new one
    const Taken taken = world.gate.take(2, 0);
    if (choice == InFlight::rescore) {
      REQUIRE(taken.trajectories.size() == 2);
      CHECK(taken.trajectories[0]->group_rewards == std::vector<double>{0.5, 1});
      CHECK(taken.trajectories[0]->score.spec_version == 2);
      CHECK(world.gate.ledger().read(first)->score.total == doctest::Approx(0.5));
    } else {
      CHECK(taken.trajectories.empty());
      const bool expired = choice == InFlight::expire;
      for (const TrajectoryId id : {first, second}) {
        CHECK(world.row(id)["outcome"] == (expired ? "expired" : "group_dropped"));
      }
      CHECK(world.row(first)["reason"] ==
            (expired ? "preference shift" : "its members were scored under different reward specs"));
    }
    CHECK(world.gate.gate().running() == 0);
    testing::check_account(world.gate);
  }
}
