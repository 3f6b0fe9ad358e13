#include "actors/scorer.hpp"

#include "tests/actors/fixture.hpp"

using namespace millrace;

namespace {

RewardSpec letters(const std::string& name, const std::string& which) {
  return *RewardSpec::parse(
      {{"name", name}, {"parts", {{{"name", which}, {"kind", "letter_share"}, {"weight", 1.0}, {"letters", which}}}}});
}

}  // namespace

TEST_CASE("a shift replaces the whole spec between two scores") {
  Metrics metrics;
  ActorFixture world;
  const auto actor =
      world.spawn(scorer, std::make_shared<const RewardSpec>(letters("first", "a")), std::string("nowhere"), &metrics);

  // Score, shift, score, all in the mailbox at once: each score belongs to exactly one spec, name, parts and version.
  auto before = world.self->request(actor, caf::infinite, score_atom_v, ScoreRequest{"aab", ""});
  auto shift = world.self->request(actor, caf::infinite, spec_atom_v, SpecChange{letters("second", "b").document(), 1});
  auto after = world.self->request(actor, caf::infinite, score_atom_v, ScoreRequest{"aab", ""});
  world.run();
  const auto unexpected_error = [](const caf::error& error) { FAIL(caf::to_string(error)); };
  before.receive(
      [](const ScoreReply& reply) {
        CHECK(reply->spec == "first");
        CHECK(reply->spec_version == 1);
        CHECK(reply->parts.at(0).name == "a");
        CHECK(reply->total == doctest::Approx(2.0 / 3));
      },
      unexpected_error);
  shift.receive([](const SpecReply& reply) { CHECK(reply.error.empty()); }, unexpected_error);
  after.receive(
      [](const ScoreReply& reply) {
        CHECK(reply->spec == "second");
        CHECK(reply->spec_version == 2);
        CHECK(reply->parts.at(0).name == "b");
        CHECK(reply->total == doctest::Approx(1.0 / 3));
      },
      unexpected_error);
}

TEST_CASE("a refused shift changes nothing") {
  Metrics metrics;
  ActorFixture world;
  const auto actor =
      world.spawn(scorer, std::make_shared<const RewardSpec>(letters("first", "a")), std::string("nowhere"), &metrics);
  const auto stale = world.ask<SpecReply>(actor, spec_atom_v, SpecChange{letters("second", "b").document(), 7});
  CHECK(stale.fault == SpecFault::conflict);
  CHECK_FALSE(stale.error.empty());
  const auto malformed = world.ask<SpecReply>(actor, spec_atom_v, SpecChange{{{"name", "x"}}, 1});
  CHECK(malformed.fault == SpecFault::invalid);
  CHECK_FALSE(malformed.error.empty());
  const auto unknown = world.ask<SpecReply>(actor, spec_atom_v, SpecChange{"no such spec", 0});
  CHECK_FALSE(unknown.error.empty());
  const auto info = world.ask<SpecInfo>(actor, spec_atom_v);
  CHECK(info.version == 1);
  CHECK(info.name == "first");
}
