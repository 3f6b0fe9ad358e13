#include "actors/scorer.hpp"

#include <atomic>
#include <thread>

#include "runtime/clock.hpp"
#include "runtime/rewards/asker.hpp"
#include "tests/actors/fixture.hpp"
#include "tests/eventually.hpp"
#include "tests/runtime/http_fixture.hpp"

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

// A scoring service that answers when it may, and an actor whose spec asks it.
struct RemoteWorld : ActorFixture {
  std::atomic<int> calls = 0;
  std::atomic<bool> may_answer = false;
  HttpServer service{serve([this](const HttpRequest&, const HttpReply& reply) {
    ++calls;
    std::thread([this, reply] {
      while (!may_answer) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      reply({200, R"({"reward": 0.25})", "application/json", {}});
    }).detach();
  })};
  Metrics metrics;
  ScorerActor actor;
  Asker asker{4};

  RemoteWorld() {
    auto spec = RewardSpec::parse({{"name", "remote"},
                                   {"parts",
                                    {{{"name", "p"},
                                      {"kind", "http"},
                                      {"weight", 1},
                                      {"url", "http://127.0.0.1:" + std::to_string(service.port()) + "/verify"}}}}});
    REQUIRE_MESSAGE(spec, spec.error().message);
    actor = spawn(scorer, Preference(std::make_shared<const RewardSpec>(std::move(*spec))),
                  ScorerSetup{"nowhere", &metrics, {}, nullptr, &asker});
  }
  ~RemoteWorld() {
    may_answer = true;
    stop();
  }
  void wait_for(const std::atomic<int>& counter, int count) {
    testing::eventually(std::chrono::seconds(5), [&] { return counter >= count; });
    REQUIRE(counter == count);
  }
  // Until the answers of the other threads are in the mailbox and have been dealt with.
  ScoreReply receive(auto& request) {
    std::optional<ScoreReply> answer;
    for (int i = 0; i < 5000 && !self->has_next_message(); ++i) {
      run();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    request.receive([&](const ScoreReply& reply) { answer = reply; },
                    [](const caf::error& error) { FAIL(caf::to_string(error)); });
    return *answer;
  }
};

}  // namespace

TEST_CASE("a remote scorer holds up nobody else, and is not asked twice about the same") {
  RemoteWorld world;
  auto first = world.self->request(world.actor, caf::infinite, score_atom_v, ScoreRequest{"a", "", "t"});
  auto again = world.self->request(world.actor, caf::infinite, score_atom_v, ScoreRequest{"a", "", "t"});
  world.run();
  world.wait_for(world.calls, 1);
  CHECK(world.ask<SpecReply>(world.actor, spec_atom_v, change_to("second", "b")).error.empty());
  CHECK(world.ask<ScoreReply>(world.actor, score_atom_v, ScoreRequest{"ab", "", "t"})->spec_version == 2);
  world.may_answer = true;
  for (auto* request : {&first, &again}) {
    const ScoreReply reply = world.receive(*request);
    REQUIRE_MESSAGE(reply, reply.error().message);
    CHECK(reply->total == 0.25);
    CHECK(reply->spec_version == 1);  // begun under the first, finished under it
  }
  CHECK(world.calls == 1);
}

TEST_CASE("what a remote scorer is still asked about when everything is scored again is scored again, too") {
  RemoteWorld world;
  auto request = world.self->request(world.actor, caf::infinite, score_atom_v, ScoreRequest{"ab", "", "t"});
  world.run();
  world.wait_for(world.calls, 1);
  SpecChange change = change_to("second", "b");
  change.in_flight = InFlight::rescore;
  CHECK(world.ask<SpecReply>(world.actor, spec_atom_v, change).error.empty());
  world.may_answer = true;
  const ScoreReply reply = world.receive(request);
  CHECK(reply->spec_version == 2);
  CHECK(reply->total == 0.5);

  change.spec.clear();
  change.restore = 1;  // back to the remote one
  const auto refused = world.ask<SpecReply>(world.actor, spec_atom_v, change);
  CHECK(refused.fault == SpecFault::invalid);
  CHECK(refused.error.find("rescore") != std::string::npos);
  CHECK(world.ask<SpecInfo>(world.actor, spec_atom_v).version == 2);
}

TEST_CASE("a shift replaces the whole spec between two scores") {
  Metrics metrics;
  ActorFixture world;
  const auto actor = world.spawn(scorer, first(), ScorerSetup{"nowhere", &metrics, {}, nullptr, nullptr});

  // Score, shift, score, all in the mailbox at once: each score belongs to exactly one spec, name, parts and version.
  auto before = world.self->request(actor, caf::infinite, score_atom_v, ScoreRequest{"aab", "", ""});
  auto shift = world.self->request(actor, caf::infinite, spec_atom_v, change_to("second", "b", 1));
  auto after = world.self->request(actor, caf::infinite, score_atom_v, ScoreRequest{"aab", "", ""});
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
  const auto actor = world.spawn(scorer, first(), ScorerSetup{"nowhere", &metrics, {}, nullptr, nullptr});
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
  const auto actor = world.spawn(scorer, first(), ScorerSetup{"nowhere", &metrics, {}, nullptr, nullptr});
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
  const auto actor = world.spawn(scorer, first(), ScorerSetup{"nowhere", &metrics, {}, nullptr, nullptr});
  const double before = unix_now() - 1;
  SpecChange change = change_to("second", "b");
  change.in_flight = InFlight::finish;
  world.ask<SpecReply>(actor, spec_atom_v, change);
  CHECK(world.ask<ScoreReply>(actor, score_atom_v, ScoreRequest{"ab", "", "", before})->spec_version == 1);
  CHECK(world.ask<ScoreReply>(actor, score_atom_v, ScoreRequest{"ab", "", "", unix_now()})->spec_version == 2);
}

TEST_CASE("a planned ramp goes over by stages, and another shift puts an end to it") {
  Metrics metrics;
  ActorFixture world;
  const auto actor = world.spawn(scorer, first(), ScorerSetup{"nowhere", &metrics, {}, nullptr, nullptr});
  SpecChange ramp = change_to("second", "b");
  ramp.after_s = 10;
  ramp.ramp_s = 90;  // ten stages, ten seconds apart
  const auto planned = world.ask<SpecReply>(actor, spec_atom_v, ramp);
  CHECK(planned.info.version == 1);
  CHECK(planned.info.pending["name"] == "second");
  const auto reward_of_b = [&] { return world.ask<ScoreReply>(actor, score_atom_v, ScoreRequest{"b", "", ""})->total; };
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
