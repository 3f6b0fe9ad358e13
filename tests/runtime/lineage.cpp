#include "runtime/lineage.hpp"

#include <doctest/doctest.h>

using namespace millrace;

TEST_CASE("without a fork every version is itself") {
  const Lineage lineage;
  CHECK(lineage.today(0) == Version{0});
  CHECK(lineage.today(7) == Version{7});
}

TEST_CASE("a fork renumbers what it keeps, so that lag counts published batches, and abandons what came after") {
  const Lineage lineage({{5, 9}});  // version 5 goes on as 9; 6, 7, 8 are abandoned
  CHECK(lineage.today(5) == Version{9});
  CHECK(lineage.today(3) == Version{7});  // two batches before the fork
  for (const Version abandoned : {6, 7, 8}) CHECK_FALSE(lineage.today(abandoned));
  CHECK(lineage.today(9) == Version{9});
  CHECK(lineage.today(12) == Version{12});
  CHECK(lineage.today_or_from_fork(7) == Version{7});  // two batches beyond the fork: as far as two before it
  CHECK(lineage.today_or_from_fork(3) == Version{7});
}

TEST_CASE("a fork that repeats abandons nothing: what came after counts as its successor") {
  const Lineage lineage({{5, 9, true}, {10, 14, true}});
  CHECK(lineage.today(4) == Version{12});
  CHECK(lineage.today(5) == Version{13});
  CHECK(lineage.today(7) == Version{15});   // two batches after the first fork
  CHECK(lineage.today(11) == Version{15});  // of the same batch, made a second time
  CHECK(lineage.today_or_from_fork(7) == Version{15});
  CHECK(lineage.today(14) == Version{14});
}

TEST_CASE("forks add up") {
  // 5 goes on as 9; 10 is trained; 9 is rolled back to as 12.
  const Lineage lineage({{5, 9}, {9, 12}});
  CHECK(lineage.today(5) == Version{12});
  CHECK(lineage.today(4) == Version{11});
  CHECK(lineage.today(9) == Version{12});
  CHECK_FALSE(lineage.today(7));   // of the first fork
  CHECK_FALSE(lineage.today(10));  // of the second
  CHECK(lineage.today(12) == Version{12});
  CHECK(lineage.today(13) == Version{13});
}

TEST_CASE("renumber touches action tokens only and says whether all of them survive") {
  const Lineage lineage({{5, 9}});
  Trajectory trajectory;
  trajectory.sequence.mask = {0, 1, 1};
  trajectory.versions = {0, 5, 4};
  CHECK(renumber(trajectory, lineage));
  CHECK(trajectory.versions == std::vector<Version>{0, 9, 8});
  trajectory.versions = {0, 5, 6};
  CHECK_FALSE(renumber(trajectory, lineage));
  CHECK(trajectory.versions == std::vector<Version>{0, 9, 8});
}
