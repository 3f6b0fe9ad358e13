// The memory of live traffic: feedback late, repeated, contradictory, unknown; sessions; and that nothing is taught
// twice or lost.
#include "runtime/live/interactions.hpp"

#include <chrono>
#include <numeric>

#include <doctest/doctest.h>

#include "runtime/sqlite.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;

namespace {

Interaction answer(const std::string& id, Tokens prompt, Tokens sampled, double created = 100) {
  Interaction result;
  result.id = id;
  result.prompt = std::move(prompt);
  result.sampled.logp.assign(sampled.size(), -0.1F);
  result.sampled.versions.assign(sampled.size(), 3);
  result.sampled.tokens = std::move(sampled);
  result.task = "task";
  result.answer = "answer " + id;
  result.created = created;
  result.seconds = 1;
  return result;
}

struct World {
  TemporaryDirectory directory;
  Interactions live;
  explicit World(LiveSettings settings = {}) : live(std::move(*Interactions::open(directory.path(), settings))) {}

  int feedback(const std::string& id, double reward, bool final = true, double now = 200) {
    const auto given = live.feedback({id, reward, final}, now);
    REQUIRE(given);
    return given->status;
  }
  // Takes the next lesson as the actor does; nothing where none waits.
  std::optional<Lesson> learn(TrajectoryId id) {
    auto lessons = live.assign({id});
    REQUIRE(lessons);
    if (lessons->empty()) return {};
    CHECK(lessons->front().trajectory == id);
    REQUIRE(live.confirm(lessons->front().number));
    return std::move(lessons->front());
  }
};

}  // namespace

TEST_CASE("feedback is taken once: repeated 200, contradictory 409, unknown 404, late 410") {
  World world;
  REQUIRE(world.live.record(answer("a", {1, 2}, {3, 4})));
  REQUIRE(world.live.record(answer("b", {1, 2}, {5})));
  CHECK(world.feedback("nobody", 1) == 404);
  CHECK(world.feedback("a", 1) == 200);
  CHECK(world.feedback("a", 1) == 200);
  CHECK(world.feedback("a", 0.5) == 409);
  CHECK(world.feedback("b", 1, true, 101 + 3600 + 1) == 410);

  const auto lesson = world.learn(7);
  REQUIRE(lesson);
  CHECK(lesson->run.at(0).interaction.id == "a");
  CHECK(lesson->run.at(0).reward == 1);
  CHECK_FALSE(world.learn(8));  // three calls, one lesson
  CHECK(world.feedback("a", 1) == 200);
  CHECK_FALSE(world.learn(9));
}

TEST_CASE("a reward that is not final may be replaced, and counts as it stood when the time is over") {
  World world;
  REQUIRE(world.live.record(answer("a", {1}, {3})));
  REQUIRE(world.live.record(answer("b", {1}, {3})));
  REQUIRE(world.live.record(answer("silent", {1}, {3})));
  CHECK(world.feedback("a", 0.2, false) == 200);
  CHECK(world.feedback("a", 0.7, false) == 200);
  CHECK(world.feedback("b", 0.2, false) == 200);
  CHECK(world.feedback("b", 0.9) == 200);
  CHECK(world.learn(1)->run.at(0).interaction.id == "b");
  CHECK_FALSE(world.learn(2));
  CHECK(*world.live.expire(101 + 3600 - 1) == 0);
  CHECK(*world.live.expire(101 + 3600 + 1) == 2);
  const auto lesson = world.learn(3);
  REQUIRE(lesson);
  CHECK(lesson->run.at(0).interaction.id == "a");
  CHECK(lesson->run.at(0).reward == 0.7);
  CHECK(world.feedback("silent", 1, true, 1e6) == 410);
  CHECK(world.feedback("a", 1, true, 1e6) == 410);
}

TEST_CASE("what was answered with 200 outlives the process, and an assigned lesson is neither lost nor doubled") {
  TemporaryDirectory directory;
  {
    auto live = *Interactions::open(directory.path(), {});
    REQUIRE(live.record(answer("a", {1, 2}, {3, 4})));
    REQUIRE(live.record(answer("b", {1, 2}, {3, 4})));
    REQUIRE(live.feedback({"a", 0.25, true}, 150));
    REQUIRE(live.feedback({"b", 0.75, true}, 150));
    REQUIRE(live.assign({41})->size() == 1);  // and then the process is killed
  }
  auto live = *Interactions::open(directory.path(), {});
  CHECK(*live.waiting_lessons() == 1);
  const auto assigned = *live.assigned();
  REQUIRE(assigned.size() == 1);
  CHECK(assigned[0].trajectory == 41);
  CHECK(assigned[0].created == 100);
  REQUIRE(live.unassign(assigned[0].lesson));  // the ledger never got it
  CHECK(*live.waiting_lessons() == 2);
  const auto lessons = *live.assign({42, 43, 44});
  REQUIRE(lessons.size() == 2);  // the third permit is left over
  CHECK(lessons[0].trajectory == 42);
  CHECK(lessons[0].run.at(0).interaction.id == "a");
  CHECK(lessons[1].trajectory == 43);
  CHECK(lessons[0].run.at(0).interaction.sampled.logp == std::vector<float>{-0.1F, -0.1F});
}

TEST_CASE("a trajectory has exactly the tokens, log-probs and versions that were sampled") {
  Interaction said = answer("a", {1, 2, 3}, {7, 8, 9});
  said.sampled.versions = {4, 4, 5};
  said.sampled.logp = {-0.5F, -1.5F, -2.5F};
  said.temperature = 0.7;
  const Trajectory trajectory = make_trajectory({{said, 0.8}}, 161);
  CHECK(trajectory.environment == "live");
  CHECK(trajectory.sequence.tokens == Tokens{1, 2, 3, 7, 8, 9});
  CHECK(trajectory.sequence.mask == std::vector<std::uint8_t>{0, 0, 0, 1, 1, 1});
  CHECK(trajectory.sequence.behaviour == std::vector<float>{0, 0, 0, -0.5F, -1.5F, -2.5F});
  CHECK(trajectory.sequence.rewards == std::vector<float>{0, 0, 0, 0, 0, 0.8F});
  CHECK(trajectory.versions == std::vector<Version>{0, 0, 0, 4, 4, 5});
  CHECK(trajectory.sequence.temperature == 0.7);
  CHECK(trajectory.sequence.terminal);
  CHECK(trajectory.score.total == 0.8);
  CHECK(trajectory.oldest_version() == 4);
  CHECK(trajectory.finished_at == 5);
  CHECK(trajectory.seconds.score == doctest::Approx(60));
  CHECK(trajectory.invalid.empty());

  said.full_support = false;
  CHECK(make_trajectory({{said, 1}}, 161).invalid == "sampling");
  said = answer("a", {1}, {});
  CHECK(make_trajectory({{said, 1}}, 161).invalid == "no action tokens");
}

TEST_CASE("turns of a conversation become one sequence, and no token is made twice (B05)") {
  // Vocabulary 0="a", 1="b", 2="ab", 3="c": sampled [0, 1, 3] reads "abc", which would encode to [2, 3].
  const std::vector<RewardedTurn> turns = {{answer("1", {3}, {0, 1, 3}, 100), std::nullopt},
                                           {answer("2", {3, 0, 1, 3, 3}, {1}, 110), 1.0}};
  const auto runs = join_turns(turns);
  REQUIRE(runs.size() == 1);
  const Trajectory trajectory = make_trajectory(runs[0], 120);
  CHECK(trajectory.sequence.tokens == Tokens{3, 0, 1, 3, 3, 1});
  CHECK(trajectory.sequence.mask == std::vector<std::uint8_t>{0, 1, 1, 1, 0, 1});
  CHECK(trajectory.turns == 2);
  CHECK(trajectory.score.total == 1);
}

TEST_CASE("a client's retry is no second turn; what goes its own way is a run of its own") {
  const auto turn = [](const char* id, Tokens prompt, std::optional<double> reward) {
    return RewardedTurn{answer(id, std::move(prompt), {9}), reward};
  };
  auto runs = join_turns({turn("lost", {1}, {}), turn("again", {1}, {}), turn("next", {1, 9, 2}, 1.0)});
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].size() == 2);
  CHECK(runs[0][0].interaction.id == "again");
  CHECK(join_turns({turn("a", {1}, {}), turn("b", {2}, {})}).empty());  // no reward, nothing to learn
  runs = join_turns({turn("a", {1}, 0.5), turn("b", {2}, 1.0), turn("c", {3}, {})});
  REQUIRE(runs.size() == 2);
  auto other = turn("b", {1, 9, 2}, 1.0);
  other.interaction.temperature = 0.5;  // its log-probs are at another temperature (B01)
  CHECK(join_turns({turn("a", {1}, 0.5), other}).size() == 2);
}

TEST_CASE("sessions: keys, rewards that may be replaced, an end that teaches once") {
  World world;
  const auto started = world.live.start_session("t", "", 100);
  REQUIRE(started);
  const std::string key = started->body["api_key"];
  CHECK(key.starts_with("sk-sess-"));
  CHECK(world.live.start_session("t", key, 100)->status == 409);
  const auto session = *world.live.session_of(key, 101);
  REQUIRE(session);
  CHECK_FALSE(*world.live.session_of("sk-sess-unknown", 101));
  CHECK(world.live.set_reward(*session, {"", 1, true}, 102)->status == 404);  // nothing was said yet

  for (const char* id : {"first", "second"}) {
    Interaction said = answer(id, id == std::string("first") ? Tokens{1} : Tokens{1, 9, 2}, {9});
    said.session = *session;
    REQUIRE(world.live.record(said));
  }
  CHECK(world.live.set_reward(*session, {"", 0.5, true}, 103)->body["interaction_id"] == "second");
  CHECK(world.live.set_reward(*session, {"", 0.75, true}, 103)->status == 200);
  CHECK(world.live.set_reward(*session, {"first", 0.25, true}, 103)->body["interaction_count"] == 2);
  CHECK(world.live.set_reward(*session, {"another", 1, true}, 103)->status == 404);
  CHECK(world.live.end_session(*session, 104)->body["trajectories"] == 1);
  CHECK_FALSE(*world.live.session_of(key, 105));
  const auto lesson = world.learn(1);
  REQUIRE(lesson);
  const Trajectory trajectory = make_trajectory(lesson->run, 105);
  CHECK(trajectory.sequence.rewards == std::vector<float>{0, 0.25F, 0, 0.75F});
  CHECK(trajectory.score.total == 1);
  CHECK_FALSE(world.learn(2));
}

TEST_CASE("a session that its client left ends by itself, with what it was given") {
  World world;
  const std::string key = world.live.start_session("t", "", 100)->body["api_key"];
  Interaction said = answer("a", {1}, {9});
  said.session = **world.live.session_of(key, 100);
  REQUIRE(world.live.record(said));
  REQUIRE(world.live.set_reward(said.session, {"", 1, true}, 101));
  REQUIRE(world.live.expire(100 + 3599));
  CHECK_FALSE(world.learn(1));
  REQUIRE(world.live.expire(100 + 3601));
  CHECK(world.learn(1));
  CHECK_FALSE(*world.live.session_of(key, 100 + 3602));
}

TEST_CASE("a conversation is found by its words, and never another client's") {
  World world;
  const std::vector<Message> words = {{"user", "hi"}, {"assistant", "abc"}};
  Interaction said = answer("a", {3}, {0, 1, 3});
  said.dialogue = dialogue_key("ada", words);
  REQUIRE(world.live.record(said));
  const auto found = world.live.find_dialogue(dialogue_key("ada", words));
  REQUIRE(found);
  CHECK(found->sampled.tokens == Tokens{0, 1, 3});
  CHECK_FALSE(world.live.find_dialogue(dialogue_key("bob", words)));
  CHECK_FALSE(world.live.find_dialogue(dialogue_key("ada", {{"user", "hi"}, {"assistant", "abd"}})));
}

TEST_CASE("one client cannot crowd out the others, nor teach more than its share") {
  LiveSettings settings;
  settings.client_limit = 3;
  World world(settings);
  for (int i = 0; i < 6; ++i) {
    Interaction said = answer("flood-" + std::to_string(i), {1}, {2});
    said.client = "mallory";
    REQUIRE(world.live.record(said));
    CHECK(world.feedback(said.id, 1) == 200);
  }
  Interaction said = answer("quiet", {1}, {2});
  said.client = "ada";
  REQUIRE(world.live.record(said));
  CHECK(world.feedback("quiet", 1) == 200);
  CHECK(*world.live.waiting_lessons() == 4);  // three of mallory's
  CHECK(world.learn(1)->client == "mallory");
  CHECK(world.learn(2)->client == "ada");  // who has taught less comes first
  CHECK(world.learn(3)->client == "mallory");
  CHECK(world.learn(4)->client == "mallory");
  CHECK_FALSE(world.learn(5));
}

TEST_CASE("what is kept of a client can be seen and is deleted") {
  World world;
  for (const char* id : {"a", "b", "c"}) {
    Interaction said = answer(id, {1}, {2});
    said.client = "ada";
    REQUIRE(world.live.record(said));
  }
  world.feedback("a", 1);
  world.learn(17);
  world.feedback("b", 1);  // waits
  const auto report = *world.live.forget("ada");
  CHECK(report["interactions"] == 3);
  CHECK(report["lessons"] == 2);
  CHECK(report["trajectories"] == nlohmann::json{17});
  CHECK_FALSE(world.learn(18));
  CHECK(world.feedback("c", 1) == 404);
}

TEST_CASE("what a client says without a rating: asking again, and leaving") {
  LiveSettings rules;
  rules.regenerated_reward = -0.5;
  rules.abandoned_reward = -0.1;
  rules.abandoned_after_s = 60;
  World world(rules);
  const std::vector<Message> hello{{"user", "hello"}}, answered{{"user", "hello"}, {"assistant", "hi"}},
      more{{"user", "hello"}, {"assistant", "hi"}, {"user", "and?"}};
  const auto record = [&](const char* id, const std::string& client, const std::vector<Message>& question) {
    Interaction said = answer(id, {1, 2}, {3});
    said.client = client;
    said.question = dialogue_key(client, question);
    std::vector<Message> whole = question;
    whole.push_back({"assistant", "hi"});
    said.dialogue = dialogue_key(client, whole);
    REQUIRE(world.live.record(said));
  };
  const auto next_reward = [&]() -> std::optional<double> {
    const auto lesson = world.learn(1);
    return lesson ? lesson->run.front().reward : std::nullopt;
  };
  record("first", "ada", hello);
  record("other", "bob", hello);  // the same words of somebody else
  record("nobody's", "", hello);
  CHECK(world.live.asked("", hello, 110) == 0);
  CHECK(world.live.asked("ada", hello, 110) == 1);
  CHECK(next_reward() == -0.5);
  CHECK(world.live.asked("ada", hello, 111) == 0);  // once
  CHECK(world.feedback("first", 1) == 409);         // it has its final reward
  CHECK(world.feedback("first", -0.5) == 200);
  record("second", "ada", hello);
  CHECK(world.feedback("second", 1) == 200);
  CHECK(next_reward() == 1.0);
  CHECK(world.live.asked("ada", hello, 120) == 0);  // who has rated has said it
  record("third", "ada", hello);
  CHECK(world.live.asked("ada", more, 130) == 0);  // the conversation goes on
  record("fourth", "ada", more);
  REQUIRE(world.live.expire(150));
  CHECK_FALSE(next_reward());
  REQUIRE(world.live.expire(170));  // bob, and ada after "and?", have left
  CHECK(next_reward() == -0.1);
  CHECK(next_reward() == -0.1);
  CHECK_FALSE(next_reward());
  CHECK(world.feedback("third", 1) == 200);  // not abandoned, still to be rated
  CHECK(world.feedback("nobody's", 1) == 200);

  World off;
  CHECK(off.live.asked("ada", hello, 110) == 0);
}

TEST_CASE("a flood of lessons does not make the next one slower to find") {
  World world;
  auto seconds_for_64 = [&, permit = TrajectoryId{0}]() mutable {
    std::vector<TrajectoryId> permits(64);
    std::iota(permits.begin(), permits.end(), permit + 1);
    permit += 64;
    const auto begun = std::chrono::steady_clock::now();
    CHECK(world.live.assign(permits)->size() == 64);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  };
  auto rate = [&, answers = 0](int count) mutable {
    for (int i = 0; i < count; ++i, ++answers) {
      Interaction said = answer("flood-" + std::to_string(answers), {1}, {2});
      said.client = "client-" + std::to_string(answers % 50);
      REQUIRE(world.live.record(said));
      REQUIRE(world.feedback(said.id, 1) == 200);
    }
  };
  rate(200);
  const double few = seconds_for_64();
  rate(6000);
  const double many = seconds_for_64();
  CHECK(many < 4 * few + 0.02);
}

TEST_CASE("what nothing more can come of is forgotten when it is old") {
  World world;
  for (const char* id : {"taught", "waiting", "open"}) REQUIRE(world.live.record(answer(id, {1}, {2})));
  CHECK(world.feedback("taught", 1) == 200);
  REQUIRE(world.learn(1));
  CHECK(world.feedback("waiting", 1) == 200);
  REQUIRE(world.live.prune(150));
  CHECK(world.feedback("taught", 1) == 404);
  CHECK(world.feedback("waiting", 1) == 404);  // its lesson is kept
  CHECK(world.feedback("open", 1) == 200);
  CHECK(*world.live.waiting_lessons() == 2);
}

TEST_CASE("a state of format 1 is brought up to date") {
  const TemporaryDirectory directory;
  {
    auto live = *Interactions::open(directory.path(), {});
    REQUIRE(live.record(answer("old", {1}, {2})));
  }
  {
    const auto file = *Database::open(directory.path() + "/live.sqlite", SQLITE_OPEN_READWRITE);
    REQUIRE(file.execute(
        "create table kept as select id, client, session, dialogue, state, reward, created, body from interactions;"
        "drop table interactions;"
        "create table interactions (id text primary key, client text not null, session text not null, dialogue text "
        "not "
        "null, state text not null, reward real, created real not null, body text) strict;"
        "insert into interactions select * from kept; drop table kept; drop index lessons_waiting; drop index "
        "lessons_by_turn; drop index lessons_of_client; drop index lessons_by_age; drop index sessions_by_state; "
        "drop index lessons_assigned; create index lessons_by_state on lessons (state, number); create index "
        "lessons_by_client on lessons (client, state); pragma user_version "
        "= 1"));
  }
  auto live = *Interactions::open(directory.path(), {});
  CHECK(live.feedback({"old", 1, true}, 150)->status == 200);
  REQUIRE(live.record(answer("new", {1}, {2})));
}
