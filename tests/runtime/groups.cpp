#include "runtime/groups.hpp"

#include <cmath>

#include <doctest/doctest.h>

using namespace millrace;

namespace {

Trajectory rewarded(TrajectoryId id, float reward, std::size_t length = 1) {
  Trajectory result;
  result.id = id;
  result.sequence.tokens.assign(length, 1);
  result.sequence.mask.assign(length, 1);
  result.sequence.rewards.assign(length, 0);
  result.sequence.rewards.back() = reward;
  return result;
}

// Group 0 of four: ids 1 to 4.
Groups four(const std::string& baseline = "group", bool drop_equal = false) {
  Groups groups({.size = 4, .drop_equal = drop_equal, .max_wait_s = 10}, baseline, 16);
  groups.open(0);
  return groups;
}

}  // namespace

TEST_CASE("a group's ids are consecutive") {
  CHECK(group_of(1, 4) == 0);
  CHECK(group_of(4, 4) == 0);
  CHECK(group_of(5, 4) == 1);
  CHECK(group_of(7, 1) == 6);
}

TEST_CASE("a group closes with its last member, and every member knows what all of them got, in any order") {
  Groups groups = four();
  CHECK_FALSE(groups.arrive(0, rewarded(3, 0.3f)));
  CHECK_FALSE(groups.arrive(0, rewarded(1, 0.1f)));
  CHECK_FALSE(groups.arrive(0, rewarded(4, 0.4f)));
  const auto closed = groups.arrive(0, rewarded(2, 0.2f));
  REQUIRE(closed);
  CHECK(closed->dropped.empty());
  REQUIRE(closed->members.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const Trajectory& member = *closed->members[i];
    CHECK(member.id == i + 1);
    CHECK(member.shaped_reward == doctest::Approx(0.1 * static_cast<double>(i + 1)));
    REQUIRE(member.group_rewards.size() == 4);
    CHECK(member.group_rewards[3] == doctest::Approx(0.4));
  }
  CHECK_FALSE(groups.is_open(0));
}

TEST_CASE("B14: a failed member does not block or shift the others, nor another group") {
  Groups groups = four();
  groups.open(1);
  CHECK_FALSE(groups.arrive(0, rewarded(1, 1)));
  for (TrajectoryId id = 5; id < 8; ++id) CHECK_FALSE(groups.arrive(1, rewarded(id, static_cast<float>(id))));
  CHECK_FALSE(groups.arrive(0, std::nullopt));
  CHECK_FALSE(groups.arrive(0, rewarded(3, 0)));
  const auto short_of_one = groups.arrive(0, rewarded(4, 1));
  REQUIRE(short_of_one);
  CHECK(short_of_one->members[1]->id == 3);
  CHECK(short_of_one->members[1]->group_rewards == std::vector<double>{1, 0, 1});
  const auto whole = groups.arrive(1, rewarded(8, 8));
  REQUIRE(whole);
  CHECK(whole->members[0]->group_rewards == std::vector<double>{5, 6, 7, 8});
}

TEST_CASE("all failed: an empty group; one left: nothing to compare it with, unless a value model does") {
  Groups groups = four();
  for (int i = 0; i < 3; ++i) groups.arrive(0, std::nullopt);
  const auto empty = groups.arrive(0, std::nullopt);
  REQUIRE(empty);
  CHECK(empty->members.empty());
  for (const char* baseline : {"group", "value"}) {
    Groups others = four(baseline);
    for (int i = 0; i < 3; ++i) others.arrive(0, std::nullopt);
    const auto alone = others.arrive(0, rewarded(4, 1));
    REQUIRE(alone);
    CHECK(alone->dropped.empty() == (std::string(baseline) == "value"));
    CHECK(alone->members.size() == 1);
  }
}

TEST_CASE("equal rewards: dropped where the recipe says so") {
  for (const bool drop : {false, true}) {
    Groups groups = four("group", drop);
    for (TrajectoryId id = 1; id < 4; ++id) groups.arrive(0, rewarded(id, 0.5f));
    const auto closed = groups.arrive(0, rewarded(4, 0.5f));
    REQUIRE(closed);
    CHECK(closed->dropped.empty() != drop);
  }
  Groups groups = four("group", true);
  for (TrajectoryId id = 1; id < 4; ++id) groups.arrive(0, rewarded(id, 0.5f));
  CHECK(groups.arrive(0, rewarded(4, 0.6f))->dropped.empty());
}

TEST_CASE("a group that waits too long closes with what it has; whoever comes later finds it closed") {
  Groups groups = four();
  groups.arrive(0, rewarded(1, 1));
  groups.arrive(0, rewarded(2, 0));
  CHECK(groups.expire(100).empty());  // the first look
  CHECK(groups.expire(109).empty());
  const auto closed = groups.expire(110);
  REQUIRE(closed.size() == 1);
  CHECK(closed[0].members.size() == 2);
  CHECK_FALSE(groups.is_open(0));
  CHECK_FALSE(groups.arrive(0, rewarded(3, 1)));
}

TEST_CASE("the penalty for length grows over the last share of the limit") {
  CHECK(overlong_penalty(80, 100, 0.2) == 0);
  CHECK(overlong_penalty(90, 100, 0.2) == doctest::Approx(0.5));
  CHECK(overlong_penalty(100, 100, 0.2) == 1);
  CHECK(overlong_penalty(120, 100, 0.2) == 1);
  CHECK(overlong_penalty(100, 100, 0) == 0);
  Groups groups({.size = 2, .overlong_share = 0.5}, "group", 16);
  groups.open(0);
  groups.arrive(0, rewarded(1, 1, 16));
  const auto closed = groups.arrive(0, rewarded(2, 1, 12));
  REQUIRE(closed);
  CHECK(closed->members[0]->shaped_reward == doctest::Approx(0));
  CHECK(closed->members[1]->group_rewards == std::vector<double>{0, 0.5});
  CHECK(closed->members[0]->score.total == 0);  // the ledger keeps what was scored
}
