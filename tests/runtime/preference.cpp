#include "runtime/preference.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "tests/temporary_directory.hpp"

using namespace millrace;

namespace {

SpecPtr spec_of(const std::string& letters) {
  return std::make_shared<const RewardSpec>(*RewardSpec::parse(
      {{"name", "likes-" + letters},
       {"parts", {{{"name", "p"}, {"kind", "letter_share"}, {"weight", 2}, {"letters", letters}}}}}));
}

}  // namespace

TEST_CASE("a shift outlives a restart, with who, when and why") {
  const TemporaryDirectory folder;
  const std::string file = folder.path() + "/reward_specs.jsonl";
  {
    auto preference = Preference::open(file, spec_of("a"), 100);
    REQUIRE_MESSAGE(preference, preference.error().message);
    CHECK(preference->current().version == 1);
    REQUIRE(preference->put(spec_of("b"), "alice", "a try \"here\"\nand there", InFlight::rescore, 200));
  }
  auto again = Preference::open(file, spec_of("a"), 300);
  REQUIRE_MESSAGE(again, again.error().message);
  REQUIRE(again->history().size() == 2);
  CHECK(again->current().version == 2);
  CHECK(again->current().spec->name() == "likes-b");
  CHECK(again->current().who == "alice");
  CHECK(again->current().why == "a try \"here\"\nand there");
  CHECK(again->current().in_flight == InFlight::rescore);
  CHECK(again->current().since == 200);
  CHECK(again->find(1)->spec->name() == "likes-a");
  CHECK(again->find(7) == nullptr);

  // Another spec in the config is a change, too, and a version is never used twice.
  auto changed = Preference::open(file, spec_of("c"), 400);
  REQUIRE(changed);
  CHECK(changed->current().version == 3);
  CHECK(changed->current().who == "config");
}

TEST_CASE("a line that was cut short never took effect, a damaged one is an error") {
  const TemporaryDirectory folder;
  const std::string file = folder.path() + "/reward_specs.jsonl";
  REQUIRE(Preference::open(file, spec_of("a"), 100));
  std::ofstream(file, std::ios::app) << R"({"version": 2, "spec)";
  {
    auto cut = Preference::open(file, spec_of("a"), 200);
    REQUIRE_MESSAGE(cut, cut.error().message);
    CHECK(cut->current().version == 1);
    REQUIRE(cut->put(spec_of("b"), "alice", "", InFlight::keep, 300));
  }
  CHECK(Preference::open(file, spec_of("a"), 400)->current().version == 2);
  std::ofstream(file, std::ios::app) << "{\"version\": 3}\n";
  const auto damaged = Preference::open(file, spec_of("a"), 500);
  REQUIRE_FALSE(damaged);
  CHECK(damaged.error().message.find("reward_specs.jsonl:3") != std::string::npos);
}

TEST_CASE("what cannot be written does not take effect") {
  Preference kept(spec_of("a"));
  CHECK(kept.put(spec_of("b"), "", "", InFlight::keep, 1));
  const auto nowhere = Preference::open("/nowhere/at/all", spec_of("a"), 1);
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().message.find("/nowhere/at/all") != std::string::npos);
}

TEST_CASE("sessions that had begun are scored under the old spec when the shift says so") {
  Preference preference(spec_of("a"));
  REQUIRE(preference.put(spec_of("b"), "", "", InFlight::finish, 100));
  CHECK(preference.entry_for(99).version == 1);
  CHECK(preference.entry_for(101).version == 2);
  CHECK(preference.entry_for(0).version == 2);
  REQUIRE(preference.put(spec_of("c"), "", "", InFlight::finish, 200));
  CHECK(preference.entry_for(99).version == 1);
  CHECK(preference.entry_for(150).version == 2);
  REQUIRE(preference.put(spec_of("d"), "", "", InFlight::keep, 300));
  CHECK(preference.entry_for(99).version == 4);
}

TEST_CASE("a blend weighs both specs") {
  const auto blended = blend(*spec_of("a"), *spec_of("b"), 0.25);
  REQUIRE_MESSAGE(blended, blended.error().message);
  CHECK(blended->name() == "likes-b-ramp-25");
  CHECK(blended->score("a", "").total == doctest::Approx(1.5));
  CHECK(blended->score("b", "").total == doctest::Approx(0.5));
  CHECK(blended->score("ab", "").total == doctest::Approx(1.0));
}
