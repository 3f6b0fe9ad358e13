#include "runtime/pacing.hpp"

#include <doctest/doctest.h>

#include "runtime/gatekeeper.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;

TEST_CASE("how far ahead each pacing lets generation run") {
  CHECK(Pacing("async", 4, 6).ahead() == 24);
  CHECK(Pacing("sync", 4, 6).ahead() == 0);
  CHECK(Pacing("lockstep", 4, 6).ahead() == 6);
  CHECK(Pacing("lockstep", 0, 6).ahead() == 0);
  CHECK(Pacing("just_in_time", 0, 6).ahead() == 0);
  CHECK_THROWS_AS(Pacing("later", 4, 6), std::invalid_argument);
}

TEST_CASE("just in time gives way to a hungry learner, up to max_lag, and takes back when it is not") {
  Pacing pacing("just_in_time", 2, 16);
  CHECK(pacing.ahead() == 16);
  pacing.step_over(true);
  CHECK(pacing.ahead() == 20);
  for (int i = 0; i < 100; ++i) pacing.step_over(true);
  CHECK(pacing.ahead() == 32);
  for (int i = 0; i < 7; ++i) pacing.step_over(false);
  CHECK(pacing.ahead() == 32);
  pacing.step_over(false);
  CHECK(pacing.ahead() == 31);
  for (int i = 0; i < 1000; ++i) pacing.step_over(false);
  CHECK(pacing.ahead() == 0);
  Pacing async("async", 2, 16);
  async.step_over(false);
  CHECK(async.ahead() == 32);
}

namespace {

struct Flow {
  int steps = 0;
  double lag = 0;  // mean of what was trained in the second half
};

// A session takes `session` ticks, sixteen run at once; the learner spends `pass` ticks on up to eight trajectories.
Flow run(const char* pacing, int session, int pass) {
  const TemporaryDirectory directory;
  Metrics metrics;
  Settings settings;
  settings.pacing = pacing;
  settings.batch = settings.min_batch = 16;
  settings.max_lag = 4;
  settings.sessions.limit = 16;
  Gatekeeper gate(settings, 0, std::move(*Ledger::open(directory.path())), metrics);
  struct Running {
    TrajectoryId id;
    Version version;
    int ends;
  };
  std::vector<Running> running;
  Flow flow;
  int trained = 0, learner_free_at = 0;
  bool step_ends = false;
  constexpr int ticks = 2000;
  for (int tick = 0; tick < ticks; ++tick) {
    while (const TrajectoryId id = gate.acquire()) running.push_back({id, gate.learner_version(), tick + session});
    std::erase_if(running, [&](const Running& one) {
      if (one.ends > tick) return false;
      Trajectory trajectory;
      trajectory.id = one.id;
      trajectory.sequence = {.tokens = {1, 2}, .mask = {0, 1}, .behaviour = {0, -1}, .rewards = {0, 0}};
      trajectory.versions = {0, one.version};
      gate.submit(std::move(trajectory), Outcome::queued, "");
      return true;
    });
    if (tick < learner_free_at) continue;
    if (step_ends) {
      gate.published(gate.learner_version() + 1);
      ++flow.steps;
      step_ends = false;
    }
    const Taken taken = gate.take(8, tick);
    if (!taken.trajectories.empty()) learner_free_at = tick + pass;
    step_ends = taken.last;
    if (tick < ticks / 2) continue;
    for (const TrajectoryPtr& one : taken.trajectories) {
      flow.lag += static_cast<double>(gate.learner_version() - one->oldest_version());
      ++trained;
    }
  }
  flow.lag /= trained;
  return flow;
}

}  // namespace

TEST_CASE("just in time learns as fast as async, from fresher data where generation is the faster") {
  const Flow async = run("async", 4, 10), just_in_time = run("just_in_time", 4, 10), sync = run("sync", 4, 10);
  MESSAGE("steps and lag: async ", async.steps, " ", async.lag, ", just in time ", just_in_time.steps, " ",
          just_in_time.lag, ", sync ", sync.steps, " ", sync.lag);
  CHECK(async.lag > 3.5);
  CHECK(just_in_time.lag < 1.1);
  CHECK(just_in_time.steps > 0.95 * async.steps);
  CHECK(sync.steps < 0.9 * async.steps);

  // Where generation is what takes time, nothing waits in the queue, whatever is allowed.
  const Flow slow = run("async", 40, 5), also_slow = run("just_in_time", 40, 5);
  CHECK(also_slow.steps >= slow.steps - 1);
  CHECK(also_slow.lag <= slow.lag);
}
