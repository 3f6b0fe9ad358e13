// What the ledger knows of checkpoints, forks and former services, and what leaves it.
#include "tests/runtime/ledger_fixture.hpp"

#include <filesystem>

#include "runtime/sqlite.hpp"

using namespace millrace;
using testing::check_counts, testing::open_ledger, testing::trajectory;

TEST_CASE("what a killed service had given out and what never came back is known") {
  const TemporaryDirectory folder;
  {
    Ledger ledger = open_ledger(folder);
    for (int i = 0; i < 6; ++i) ledger.next_group();
    for (const TrajectoryId id : {2, 3, 6}) REQUIRE(ledger.accept(trajectory(id), Outcome::queued, ""));
  }
  Ledger ledger = open_ledger(folder);
  std::vector<TrajectoryId> missing;
  for (const UnfinishedGroup& group : ledger.unfinished_groups()) {
    CHECK(group.queued.empty());
    missing.insert(missing.end(), group.missing.begin(), group.missing.end());
  }
  CHECK(missing == std::vector<TrajectoryId>{1, 4, 5});
  CHECK(ledger.next_group() == 7);
}

TEST_CASE("groups of a killed service: begun, half arrived, closed, cut at the end") {
  const TemporaryDirectory folder;
  {
    Ledger ledger = open_ledger(folder);
    const auto accept = [&](TrajectoryId id, Outcome outcome) { REQUIRE(ledger.accept(trajectory(id), outcome, "")); };
    for (const TrajectoryId id : {1, 2, 3}) accept(id, Outcome::queued);  // whole
    for (const TrajectoryId id : {7, 9}) accept(id, Outcome::queued);     // of 7, 8, 9
    accept(11, Outcome::env_failed);                                      // of 10, 11, 12
    for (const TrajectoryId id : {13, 15}) accept(id, Outcome::queued);   // closed without 14
    REQUIRE(ledger.settle({13}, Outcome::trained, "", 1, 1));
    for (const TrajectoryId id : {17, 18}) accept(id, Outcome::group_dropped);  // closed without 16
    accept(19, Outcome::queued);                                                // the last one
  }
  Ledger ledger = open_ledger(folder);
  const auto unfinished = ledger.unfinished_groups(3);
  using Ids = std::vector<TrajectoryId>;
  REQUIRE(unfinished.size() == 4);
  const std::pair<Ids, Ids> expected[] = {{{4, 5, 6}, {}}, {{8}, {7, 9}}, {{10, 12}, {}}, {{20, 21}, {19}}};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(unfinished[i].missing == expected[i].first);
    CHECK(unfinished[i].queued == expected[i].second);
  }
  CHECK(ledger.next_group(3) == 22);
  CHECK(ledger.next_group(4) == 25);  // the size was changed
}

TEST_CASE("the frontier names the newest checkpoints and a fork goes back to one (B26)") {
  const TemporaryDirectory folder;
  const auto checkpoint = [](Version version, std::uint64_t step) {
    return CheckpointRow{"v" + std::to_string(version), version, step, 1, 1.0};
  };
  {
    Ledger ledger = open_ledger(folder);
    CHECK(ledger.begin_incarnation(42)->clean);
    for (TrajectoryId id = 1; id <= 8; ++id) REQUIRE(ledger.accept(trajectory(id), Outcome::queued, ""));
    REQUIRE(ledger.settle({1, 2}, Outcome::skipped, "value-only step", 0, 1));
    REQUIRE(ledger.settle({3}, Outcome::trained, "", 1, 2));
    REQUIRE(ledger.name_checkpoint(checkpoint(1, 2), 2));
    REQUIRE(ledger.settle({5, 4}, Outcome::trained, "", 2, 3));
    REQUIRE(ledger.settle({6}, Outcome::stale, "old", 2));
    REQUIRE(ledger.settle({7}, Outcome::trained, "", 3, 4));
    check_counts(ledger, {8, 4, 1, 3});
  }
  Ledger ledger = open_ledger(folder);
  CHECK(ledger.begin_incarnation(43).error().message.find("another model") != std::string::npos);
  const auto past = ledger.begin_incarnation(42);
  REQUIRE(past);
  CHECK(past->incarnation == 2);
  CHECK(past->published == 6);  // the newest that sampled what is queued again
  CHECK(past->step == 4);
  CHECK_FALSE(past->clean);
  REQUIRE(ledger.checkpoints().size() == 1);

  CHECK(ledger.fork(ledger.checkpoints()[0], 5).value() == 3);
  CHECK(ledger.queued() == std::vector<TrajectoryId>{4, 5, 7, 8});  // in the order of acceptance
  check_counts(ledger, {8, 1, 4, 3});
  CHECK(ledger.step() == 2);
  CHECK(ledger.lineage().today(1) == Version{5});
  CHECK_FALSE(ledger.lineage().today(3));
  CHECK(ledger.find(4)->at("version").is_null());

  // Batches are counted on from there; checkpoints of the abandoned lineage are forgotten.
  REQUIRE(ledger.settle({4, 5}, Outcome::trained, "", 6, 3));
  REQUIRE(ledger.name_checkpoint(checkpoint(6, 3), 2));
  REQUIRE(ledger.checkpoints().size() == 2);
  CHECK(ledger.checkpoints()[0].policy_version == 6);
  CHECK(ledger.fork(checkpoint(1, 2), 7).value() == 2);
  CHECK(ledger.checkpoints().size() == 1);
  CHECK(ledger.lineage().today(1) == Version{7});
  CHECK(ledger.lineage().today(5) == Version{7});
  CHECK_FALSE(ledger.lineage().today(6));
  REQUIRE(ledger.end_incarnation());
  CHECK(ledger.begin_incarnation(42)->clean);
}

TEST_CASE("only so many checkpoints are kept") {
  const TemporaryDirectory folder;
  Ledger ledger = open_ledger(folder);
  for (std::uint64_t step = 1; step <= 5; ++step) {
    REQUIRE(ledger.name_checkpoint({"s" + std::to_string(step), step, step, 1, 1.0}, 3));
  }
  std::vector<std::string> names;
  for (const CheckpointRow& row : ledger.checkpoints()) names.push_back(row.name);
  CHECK(names == std::vector<std::string>{"s5", "s4", "s3"});
}

TEST_CASE("besides the newest checkpoints the best ones under the spec in force are kept") {
  const TemporaryDirectory folder;
  Ledger ledger = open_ledger(folder);
  const auto names = [&] {
    std::vector<std::string> all;
    for (const CheckpointRow& row : ledger.checkpoints()) all.push_back(row.name);
    return all;
  };
  std::uint64_t step = 0;
  for (const double reward : {0.9, 0.3, 0.8, std::nan(""), 0.5}) {
    ++step;
    REQUIRE(ledger.name_checkpoint({"s" + std::to_string(step), step, step, 1, 1.0, reward, 1}, 2, 2));
  }
  CHECK(names() == std::vector<std::string>{"s5", "s4", "s3", "s1"});
  CHECK(ledger.checkpoints().back().reward == 0.9);
  REQUIRE(ledger.name_checkpoint({"s6", 6, 6, 1, 1.0, 0.1, 2}, 2, 2));  // after a shift
  CHECK(names() == std::vector<std::string>{"s6", "s5"});
}

TEST_CASE("a ledger of format 1 is migrated with all that is in it") {
  const TemporaryDirectory folder;
  std::filesystem::copy(MILLRACE_TEST_DATA "/ledger-format-1.sqlite", folder.path() + "/ledger.sqlite");
  CHECK(Ledger::open_read_only(folder.path()).error().message.find("ledger of format 1") != std::string::npos);
  Ledger ledger = open_ledger(folder);
  check_counts(ledger, {4, 2, 1, 1});
  CHECK(ledger.queued() == std::vector<TrajectoryId>{4});
  CHECK(ledger.read(4)->answer == "Hello");
  const auto past = ledger.begin_incarnation(42);
  CHECK(past->published == 2);
  CHECK(past->step == 2);
  // It knows no checkpoints: everything it had trained is queued again when its policy starts anew.
  CHECK(ledger.fork({}, 4).value() == 2);
  CHECK(ledger.queued() == std::vector<TrajectoryId>{1, 2, 4});
}

TEST_CASE("a ledger of format 2 is migrated: its forks abandoned what came after them") {
  const TemporaryDirectory folder;
  {
    Ledger ledger = open_ledger(folder);
    CHECK(ledger.fork({"v2", 2, 2, 1, 1.0}, 5).has_value());
  }
  REQUIRE(Database::open(folder.path() + "/ledger.sqlite", SQLITE_OPEN_READWRITE)
              ->execute("alter table forks drop column repeats; alter table checkpoints drop column reward; "
                        "alter table checkpoints drop column reward_spec; pragma user_version = 2"));
  Ledger ledger = open_ledger(folder);
  CHECK(ledger.lineage().today(2) == Version{5});
  CHECK_FALSE(ledger.lineage().today(3));
  CHECK(ledger.fork({"v5", 5, 2, 1, 1.0}, 9, true).has_value());
  CHECK(ledger.lineage().today(6) == Version{10});
}

TEST_CASE("retention removes what is old or too much, never what is queued or beyond the oldest checkpoint") {
  const TemporaryDirectory folder;
  Ledger ledger = open_ledger(folder);
  const double never = 0, always = 1e12;
  constexpr std::int64_t any_size = std::int64_t{1} << 40;
  for (TrajectoryId id = 1; id <= 9; ++id) REQUIRE(ledger.accept(trajectory(id), Outcome::queued, ""));
  REQUIRE(ledger.settle({1, 2}, Outcome::trained, "", 1, 1));
  REQUIRE(ledger.settle({3}, Outcome::stale, "old", 1));
  REQUIRE(ledger.settle({4, 5}, Outcome::trained, "", 2, 2));
  check_counts(ledger, {9, 4, 4, 1});
  CHECK(ledger.prune(never, any_size, 1).value() == 0);
  CHECK(ledger.prune(always, any_size, 1).value() == 3);
  CHECK(ledger.list(std::nullopt, 100).size() == 6);
  CHECK_FALSE(ledger.find(1));
  CHECK_FALSE(ledger.read(3));
  check_counts(ledger, {9, 4, 4, 1});
  CHECK(ledger.prune(never, 0, 2).value() == 2);  // too large
  CHECK(ledger.prune(always, 0, 2).value() == 0);
  check_counts(ledger, {9, 4, 4, 1});
  ledger = [&] {
    { const Ledger closed = std::move(ledger); }
    return open_ledger(folder);
  }();
  check_counts(ledger, {9, 4, 4, 1});
  CHECK(ledger.unfinished_groups().empty());  // what was removed is no gap
  CHECK(ledger.next_group() == 10);
}

TEST_CASE("a ledger that is pruned stays of bounded size") {
  const TemporaryDirectory folder;
  Ledger ledger = open_ledger(folder);
  const std::string file = folder.path() + "/ledger.sqlite";
  constexpr std::int64_t most = 512 * 1024;
  for (int round = 0; round < 60; ++round) {
    std::vector<Submission> submissions;
    for (int i = 0; i < 100; ++i) submissions.push_back({trajectory(ledger.next_group()), Outcome::invalid, ""});
    REQUIRE(ledger.accept(submissions));
    REQUIRE(ledger.prune(0, most, 0));
  }
  CHECK(ledger.counts().accepted == 6000);
  CHECK(ledger.list(std::nullopt, 10000).size() < 3000);
  CHECK(std::filesystem::file_size(file) < 4 * most);
}
