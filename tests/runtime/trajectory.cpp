#include "runtime/trajectory.hpp"

#include <set>
#include <string>

#include <doctest/doctest.h>

using namespace millrace;

TEST_CASE("only action tokens count, and only their versions") {
  Trajectory t;
  // Prompt, two actions, an observation, two actions; the 0 and the 9 stand where no policy sampled.
  t.sequence.tokens = {1, 2, 3, 4, 5, 6};
  t.sequence.mask = {0, 1, 1, 0, 1, 1};
  t.versions = {0, 5, 5, 9, 4, 7};
  CHECK(t.action_tokens() == 4);
  CHECK(t.oldest_version() == 4);  // not the first one's
  CHECK(t.newest_version() == 7);
}

TEST_CASE("version 0 is a version like any other") {
  Trajectory t;
  t.sequence.mask = {0, 1, 1};
  t.versions = {3, 2, 0};
  CHECK(t.oldest_version() == 0);
  CHECK(t.newest_version() == 2);
}

TEST_CASE("without action tokens there is no version") {
  Trajectory t;
  t.sequence.mask = {0, 0};
  t.versions = {3, 4};
  CHECK(t.action_tokens() == 0);
  CHECK(t.oldest_version() == 0);
  CHECK(t.newest_version() == 0);
  CHECK(Trajectory().newest_version() == 0);
}

TEST_CASE("every outcome and ending has a name of its own, fit for a label") {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(Outcome::aborted); ++i) names.insert(name_of(static_cast<Outcome>(i)));
  CHECK(names == std::set<std::string>{"queued", "trained", "stale", "expired", "env_failed", "score_failed", "invalid",
                                       "group_dropped", "skipped", "rolled_back", "aborted"});
  CHECK(name_of(Ending::terminated) == std::string("terminated"));
  CHECK(name_of(Ending::truncated) == std::string("truncated"));
  CHECK(name_of(Ending::failed) == std::string("failed"));
}
