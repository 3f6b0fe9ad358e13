#include "tests/runtime/ledger_fixture.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "runtime/sqlite.hpp"

using namespace millrace;
using testing::check_counts, testing::open_ledger, testing::trajectory;

namespace {

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

}  // namespace

TEST_CASE("a trajectory comes back bit for bit") {
  const TemporaryDirectory folder;
  std::mt19937 random(1);
  Trajectory written = trajectory(1);
  // Any bit pattern, so also infinities, denormals and NaNs with a payload.
  for (int i = 0; i < 5000; ++i) {
    written.sequence.tokens.push_back(static_cast<TokenId>(random()));
    written.sequence.mask.push_back(static_cast<std::uint8_t>(random() % 2));
    written.sequence.behaviour.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    written.sequence.rewards.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    written.versions.push_back((std::uint64_t{random()} << 32) | random());
  }
  written.sequence.behaviour[0] = -0.0f;
  written.sequence.behaviour[1] = std::numeric_limits<float>::signaling_NaN();
  written.sequence.temperature = 0.1;
  written.sequence.terminal = false;
  written.answer = std::string("nul \0 and \xff", 11);
  written.expected = "42";
  written.invalid = "sampling";
  written.ending = Ending::truncated;
  written.seconds = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6};
  REQUIRE(open_ledger(folder).accept(written, Outcome::queued, ""));

  const Ledger ledger = open_ledger(folder);
  const auto read = ledger.read(1);
  REQUIRE_MESSAGE(read, read.error().message);
  CHECK(read->sequence.tokens == written.sequence.tokens);
  CHECK(read->sequence.mask == written.sequence.mask);
  CHECK(bits(read->sequence.behaviour) == bits(written.sequence.behaviour));
  CHECK(bits(read->sequence.rewards) == bits(written.sequence.rewards));
  CHECK(read->versions == written.versions);
  CHECK(read->sequence.temperature == 0.1);
  CHECK_FALSE(read->sequence.terminal);
  CHECK(read->environment == "writing");
  CHECK(read->task == "Say hello");
  CHECK(read->answer == written.answer);
  CHECK(read->expected == "42");
  CHECK(read->invalid == "sampling");
  CHECK(read->ending == Ending::truncated);
  CHECK(read->turns == 1);
  CHECK(read->finished_at == 6);
  CHECK(read->created == 1700000000.25);
  CHECK(read->seconds.generate == 0.1);
  CHECK(read->seconds.learn == 0.6);
  CHECK(read->score.total == 0.75);
  CHECK(read->score.spec == "chuunibyou");
  CHECK(read->score.spec_version == 3);
  REQUIRE(read->score.parts.size() == 2);
  CHECK(read->score.parts[1].name == "repetition");
  CHECK(read->score.parts[1].value == 0.1);
  CHECK(read->score.parts[1].weight == -0.5);
  CHECK(ledger.read(2).error().message == "trajectory 2 is not in the ledger");
}

TEST_CASE("a trajectory without tokens and with a reward that is no number is kept as well") {
  const TemporaryDirectory folder;
  Ledger ledger = open_ledger(folder);
  Trajectory empty;
  empty.id = 1;
  empty.score.total = std::nan("");
  empty.score.parts = {{"style", std::nan(""), 1.0}};
  REQUIRE(ledger.accept(empty, Outcome::score_failed, "not finite"));
  const auto read = ledger.read(1);
  REQUIRE_MESSAGE(read, read.error().message);
  CHECK(read->sequence.tokens.empty());
  CHECK(std::isnan(read->score.total));
  CHECK(std::isnan(read->score.parts.at(0).value));
  CHECK(ledger.find(1)->at("reward").is_null());
}

TEST_CASE("list and find show what an operator asks for") {
  const TemporaryDirectory folder;
  Ledger ledger = open_ledger(folder);
  for (TrajectoryId id = 1; id <= 4; ++id) REQUIRE(ledger.accept(trajectory(id), Outcome::queued, ""));
  REQUIRE(ledger.accept(trajectory(5), Outcome::env_failed, "it broke"));
  REQUIRE(ledger.settle({1, 2}, Outcome::trained, "", 8));
  REQUIRE(ledger.settle({3}, Outcome::stale, "lag 5 > 4", 9));

  const auto ids = [&](const std::optional<std::string>& state, int limit) {
    std::vector<int> result;
    for (const auto& row : ledger.list(state, limit)) result.push_back(row.at("id"));
    return result;
  };
  CHECK(ids(std::nullopt, 100) == std::vector{5, 4, 3, 2, 1});
  CHECK(ids(std::nullopt, 2) == std::vector{5, 4});
  CHECK(ids("trained", 100) == std::vector{2, 1});
  CHECK(ids("queued", 100) == std::vector{4});
  CHECK(ids("rejected", 100) == std::vector{5, 3});
  CHECK(ids("rejected", 1) == std::vector{5});
  CHECK(ids("stale", 100) == std::vector{3});
  CHECK(ids("no' such", 100).empty());

  auto row = ledger.find(3).value();
  CHECK(row.at("settled").get<double>() > 1.7e9);
  row.erase("settled");
  const nlohmann::json right = {
      {"id", 3},
      {"state", "rejected"},
      {"outcome", "stale"},
      {"reason", "lag 5 > 4"},
      {"environment", "writing"},
      {"task", "Say hello"},
      {"answer", "Hello,\nworld"},
      {"expected", ""},
      {"reward", 0.75},
      {"reward_parts",
       {{{"name", "style"}, {"value", 0.8}, {"weight", 1.0}},
        {{"name", "repetition"}, {"value", 0.1}, {"weight", -0.5}}}},
      {"reward_spec", "chuunibyou"},
      {"reward_spec_version", 3},
      {"ending", "terminated"},
      {"turns", 1},
      {"tokens", 5},
      {"action_tokens", 3},
      {"policy_version_oldest", 4},
      {"policy_version_newest", 6},
      {"version", 9},
      {"position", 3},
      {"step", nullptr},
      {"step_position", nullptr},
      {"policy_version_finished", 6},
      {"created", 1700000000.25},
      {"seconds",
       {{"generate", 1.5}, {"environment", 0.0}, {"score", 0.0}, {"queue", 0.0}, {"value", 0.0}, {"learn", 0.0}}},
  };
  CHECK(row == right);
  CHECK(ledger.find(4)->at("version").is_null());
  CHECK(ledger.find(4)->at("settled").is_null());
  CHECK_FALSE(ledger.find(6));
}

TEST_CASE("an outcome is written once, and settle is all or nothing") {
  const TemporaryDirectory folder;
  Ledger ledger = open_ledger(folder);
  for (TrajectoryId id = 1; id <= 3; ++id) REQUIRE(ledger.accept(trajectory(id), Outcome::queued, ""));
  REQUIRE(ledger.settle({1}, Outcome::trained, "", 1));

  const auto twice = ledger.settle({2, 1, 3}, Outcome::trained, "", 2);
  REQUIRE_FALSE(twice);
  CHECK(twice.error().message == "trajectory 1 is not queued: nothing was settled");
  check_counts(ledger, {3, 1, 2, 0});
  CHECK(ledger.find(1)->at("version") == 1);
  CHECK_FALSE(ledger.settle({99}, Outcome::stale, "", 2));

  const auto again = ledger.accept(trajectory(2), Outcome::queued, "");
  REQUIRE_FALSE(again);
  CHECK(again.error().message.find("trajectory 2 was not accepted") != std::string::npos);
  check_counts(ledger, {3, 1, 2, 0});
  CHECK_THROWS_AS((void)ledger.accept(trajectory(4), Outcome::trained, ""), std::logic_error);
}

TEST_CASE("accepted = trained + queued + rejected after any sequence of operations") {
  const TemporaryDirectory folder;
  Ledger ledger = open_ledger(folder);
  std::mt19937 random(7);
  std::vector<TrajectoryId> queued;
  LedgerCounts model;
  for (int i = 0; i < 400; ++i) {
    const auto choice = random() % 10;
    if (choice < 6) {
      const TrajectoryId id = ledger.next_group();
      const bool queue = random() % 4 != 0;
      REQUIRE(ledger.accept(trajectory(id), queue ? Outcome::queued : Outcome::invalid, ""));
      ++model.accepted;
      ++(queue ? model.queued : model.rejected);
      if (queue) queued.push_back(id);
    } else if (choice < 9) {
      std::shuffle(queued.begin(), queued.end(), random);
      const std::size_t count = std::min<std::size_t>(queued.size(), random() % 5);
      const bool trained = random() % 2 == 0;
      const std::vector<TrajectoryId> ids(queued.end() - static_cast<std::ptrdiff_t>(count), queued.end());
      REQUIRE(ledger.settle(ids, trained ? Outcome::trained : Outcome::skipped, "", 1));
      queued.resize(queued.size() - count);
      model.queued -= count;
      (trained ? model.trained : model.rejected) += count;
    } else {
      ledger = [&] {
        { const Ledger closed = std::move(ledger); }
        return open_ledger(folder);
      }();
    }
    const LedgerCounts counts = ledger.counts();
    REQUIRE(counts.accepted == counts.trained + counts.queued + counts.rejected);
  }
  check_counts(ledger, model);
  CHECK(ledger.list(std::nullopt, -1).size() == model.accepted);
}

TEST_CASE("every accept that returned is there after the process was killed") {
  const TemporaryDirectory folder;
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t child = ::fork();
  if (child == 0) {  // accepts until it is killed, and says so each time one came back
    auto ledger = Ledger::open(folder.path());
    if (!ledger) ::_exit(1);
    for (;;) {
      const TrajectoryId id = ledger->next_group();
      if (!ledger->accept(trajectory(id), Outcome::queued, "") || ::write(pipe[1], &id, sizeof id) < 0) ::_exit(2);
    }
  }
  TrajectoryId returned = 0;
  while (returned < 50) REQUIRE(::read(pipe[0], &returned, sizeof returned) == sizeof returned);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  ::close(pipe[1]);
  while (::read(pipe[0], &returned, sizeof returned) == sizeof returned) continue;
  ::close(pipe[0]);

  Ledger ledger = open_ledger(folder);  // the lock went with the process
  for (TrajectoryId id = 1; id <= returned; ++id) REQUIRE(ledger.read(id));
  const std::uint64_t accepted = ledger.counts().accepted;
  CHECK(accepted >= returned);
  CHECK(accepted <= returned + 1);  // one may have been durable and not reported yet
  CHECK(ledger.next_group() == accepted + 1);
  check_counts(ledger, {accepted, 0, accepted, 0});
}

TEST_CASE("one service a state directory; readers are welcome") {
  const TemporaryDirectory folder;
  {
    Ledger first = open_ledger(folder);
    REQUIRE(first.accept(trajectory(1), Outcome::queued, ""));
    const auto second = Ledger::open(folder.path());
    REQUIRE_FALSE(second);
    CHECK(second.error().message ==
          folder.path() + " is in use by another millrace: stop it first, or set state.directory");

    auto reader = Ledger::open_read_only(folder.path());
    REQUIRE_MESSAGE(reader, reader.error().message);
    CHECK(reader->counts().accepted == 1);
    REQUIRE(first.accept(trajectory(2), Outcome::queued, ""));
    CHECK(reader->counts().accepted == 2);
    CHECK_FALSE(reader->accept(trajectory(3), Outcome::queued, ""));
  }
  CHECK(open_ledger(folder).counts().accepted == 2);
  CHECK(Ledger::open_read_only(folder.path())->counts().accepted == 2);
}

TEST_CASE("what is no ledger is refused with a text that says so, and left as it is") {
  const TemporaryDirectory folder;
  const std::string file = folder.path() + "/ledger.sqlite";
  const auto message = [&] {
    const auto ledger = Ledger::open(folder.path());
    return ledger ? "opened" : ledger.error().message;
  };
  const auto says = [&](const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
    CHECK_MESSAGE(text.find(file) != std::string::npos, text);
  };

  says(Ledger::open_read_only(folder.path()).error().message, "does not exist");
  SUBCASE("another file") {
    std::ofstream(file) << std::string(5000, 'x');
    says(message(), "this is no ledger, or a damaged one");
    says(Ledger::open_read_only(folder.path()).error().message, "this is no ledger, or a damaged one");
    CHECK(std::filesystem::file_size(file) == 5000);
  }
  SUBCASE("another program's database") {
    REQUIRE(Database::open(file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)->execute("create table songs (title)"));
    says(message(), "not a Millrace ledger");
  }
  SUBCASE("a newer format") {
    { const Ledger ledger = open_ledger(folder); }
    REQUIRE(Database::open(file, SQLITE_OPEN_READWRITE)->execute("pragma user_version = 4"));
    says(message(), "ledger of format 4, this program knows 3");
  }
  SUBCASE("a damaged schema page") {
    { const Ledger ledger = open_ledger(folder); }
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(100) << std::string(200, '\xff');
    says(message(), "this is no ledger, or a damaged one");
  }
}

TEST_CASE("a damaged payload is noticed, and only that trajectory is lost") {
  const TemporaryDirectory folder;
  {
    Ledger ledger = open_ledger(folder);
    for (TrajectoryId id = 1; id <= 3; ++id) REQUIRE(ledger.accept(trajectory(id), Outcome::queued, ""));
  }
  const auto database = Database::open(folder.path() + "/ledger.sqlite", SQLITE_OPEN_READWRITE);
  // Whole zstd frames in the wrong place, then bytes that are none.
  REQUIRE(database->execute("update payloads set behaviour = rewards where id = 1"));
  REQUIRE(database->execute("update payloads set versions = x'00112233' where id = 2"));
  const Ledger ledger = open_ledger(folder);
  CHECK(ledger.read(1).error().message == "trajectory 1: the payload is not what was written: its checksum differs");
  CHECK(ledger.read(2).error().message == "trajectory 2: the payload is not what was written: zstd cannot read it");
  CHECK(ledger.read(3));
}

TEST_CASE("a state directory that cannot be written is refused") {
  const TemporaryDirectory folder;
  std::ofstream(folder.path() + "/file") << "x";
  const auto ledger = Ledger::open(folder.path() + "/file/state");
  REQUIRE_FALSE(ledger);
  CHECK(ledger.error().message.find("state.directory " + folder.path() + "/file/state") != std::string::npos);
}

TEST_CASE("several submissions are one commit: all of them or none") {
  const TemporaryDirectory folder;
  Ledger ledger = open_ledger(folder);
  REQUIRE(ledger.accept({{trajectory(1), Outcome::queued, ""}, {trajectory(2), Outcome::expired, "deadline"}}));
  check_counts(ledger, {2, 0, 1, 1});
  CHECK_FALSE(ledger.accept({{trajectory(3), Outcome::queued, ""}, {trajectory(2), Outcome::queued, ""}}));
  check_counts(ledger, {2, 0, 1, 1});
}

TEST_CASE("a forgetful ledger counts and keeps nothing") {
  Ledger ledger = Ledger::forgetful();
  CHECK(ledger.next_group() == 1);
  CHECK(ledger.next_group() == 2);
  for (TrajectoryId id = 1; id <= 3; ++id) REQUIRE(ledger.accept(trajectory(id), Outcome::queued, ""));
  REQUIRE(ledger.accept(trajectory(4), Outcome::invalid, "sampling"));
  REQUIRE(ledger.settle({1, 2}, Outcome::trained, "", 1, 1));
  check_counts(ledger, {.accepted = 4, .trained = 2, .queued = 1, .rejected = 1});
  CHECK(ledger.list(std::nullopt, -1).empty());
}
