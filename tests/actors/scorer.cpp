#include "actors/scorer.hpp"

#include "runtime/clock.hpp"
#include "tests/actors/fixture.hpp"

using namespace millrace;

namespace {

RewardSpec letters(const std::string& name, const std::string& which) {
  return *RewardSpec::parse(
      {{"name", name}, {"parts", {{{"name", which}, {"kind", "letter_share"}, {"weight", 1.0}, {"letters", which}}}}});
}

Preference first() { return Preference(std::make_shared<const RewardSpec>(letters("first", "a"))); }

SpecChange change_to(const std::string& name, const std::string& which, std::uint64_t if_match = 0) {
  SpecChange change;
  change.spec = letters(name, which).document();
  change.if_match = if_match;
  return change;
}

}  // namespace

TEST_CASE("a shift replaces the whole spec between two scores") {
  Metrics metrics;
  ActorFixture world;
  const auto actor = world.spawn(scorer, first(), ScorerSetup{"nowhere", &metrics, {}, nullptr});

  // Score, shift, score, all in the mailbox at once: each score belongs to exactly one spec, name, parts and version.
  auto before = world.self->request(actor, caf::infinite, score_atom_v, ScoreRequest{"aab", ""});
  auto shift = world.self->request(actor, caf::infinite, spec_atom_v, change_to("second", "b", 1));
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
  const auto actor = world.spawn(scorer, first(), ScorerSetup{"nowhere", &metrics, {}, nullptr});
  const auto stale = world.ask<SpecReply>(actor, spec_atom_v, change_to("second", "b", 7));
  CHECK(stale.fault == SpecFault::conflict);
  CHECK_FALSE(stale.error.empty());
  SpecChange broken;
  broken.spec = {{"name", "x"}};
  const auto malformed = world.ask<SpecReply>(actor, spec_atom_v, broken);
  CHECK(malformed.fault == SpecFault::invalid);
  CHECK_FALSE(malformed.error.empty());
  broken.spec = "no such spec";
  const auto unknown = world.ask<SpecReply>(actor, spec_atom_v, broken);
  CHECK_FALSE(unknown.error.empty());
  const auto info = world.ask<SpecInfo>(actor, spec_atom_v);
  CHECK(info.version == 1);
  CHECK(info.name == "first");
}

TEST_CASE("back to what was before, as a new version") {
  Metrics metrics;
  ActorFixture world;
  const auto actor = world.spawn(scorer, first(), ScorerSetup{"nowhere", &metrics, {}, nullptr});
  SpecChange back;
  back.restore = 0;
  CHECK_FALSE(world.ask<SpecReply>(actor, spec_atom_v, back).error.empty());  // nothing was before
  world.ask<SpecReply>(actor, spec_atom_v, change_to("second", "b"));
  const auto reply = world.ask<SpecReply>(actor, spec_atom_v, back);
  CHECK(reply.error.empty());
  CHECK(reply.info.version == 3);
  CHECK(reply.info.name == "first");
  back.restore = 2;
  CHECK(world.ask<SpecReply>(actor, spec_atom_v, back).info.name == "second");
  CHECK(world.ask<nlohmann::json>(actor, history_atom_v).size() == 4);
}

TEST_CASE("sessions that had begun may finish under the old spec") {
  Metrics metrics;
  ActorFixture world;
  const auto actor = world.spawn(scorer, first(), ScorerSetup{"nowhere", &metrics, {}, nullptr});
  const double before = unix_now() - 1;
  SpecChange change = change_to("second", "b");
  change.in_flight = InFlight::finish;
  world.ask<SpecReply>(actor, spec_atom_v, change);
  CHECK(world.ask<ScoreReply>(actor, score_atom_v, ScoreRequest{"ab", "", before})->spec_version == 1);
  CHECK(world.ask<ScoreReply>(actor, score_atom_v, ScoreRequest{"ab", "", unix_now()})->spec_version == 2);
}

TEST_CASE("a planned ramp goes over by stages, and another shift puts an end to it") {
  Metrics metrics;
  ActorFixture world;
  const auto actor = world.spawn(scorer, first(), ScorerSetup{"nowhere", &metrics, {}, nullptr});
  SpecChange ramp = change_to("second", "b");
  ramp.after_s = 10;
  ramp.ramp_s = 90;  // ten stages, ten seconds apart
  const auto planned = world.ask<SpecReply>(actor, spec_atom_v, ramp);
  CHECK(planned.info.version == 1);
  CHECK(planned.info.pending["name"] == "second");
  const auto reward_of_b = [&] { return world.ask<ScoreReply>(actor, score_atom_v, ScoreRequest{"b", ""})->total; };
  CHECK(reward_of_b() == doctest::Approx(0));
  world.advance(std::chrono::milliseconds(10'010));
  CHECK(reward_of_b() == doctest::Approx(0.1));
  for (int stage = 2; stage <= 9; ++stage) {
    world.advance(std::chrono::milliseconds(10'010));
    CHECK(reward_of_b() == doctest::Approx(0.1 * stage));
  }
  world.advance(std::chrono::milliseconds(10'010));
  const auto info = world.ask<SpecInfo>(actor, spec_atom_v);
  CHECK(info.name == "second");
  CHECK(info.version == 11);
  CHECK(info.pending.is_null());
  CHECK(metrics.text().find("millrace_preference_shifts_total 1\n") != std::string::npos);

  ramp = change_to("third", "c");
  ramp.ramp_s = 90;
  world.ask<SpecReply>(actor, spec_atom_v, ramp);
  world.ask<SpecReply>(actor, spec_atom_v, change_to("fourth", "d"));
  world.advance(std::chrono::milliseconds(100'000));
  CHECK(world.ask<SpecInfo>(actor, spec_atom_v).name == "fourth");
}
