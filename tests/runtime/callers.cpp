#include "runtime/callers.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "tests/temporary_directory.hpp"

using namespace millrace;
using namespace std::chrono_literals;

namespace {

expected<std::vector<Caller>> read(const std::string& text) {
  const TemporaryDirectory folder;
  const std::string file = folder.path() + "/token";
  std::ofstream(file) << text;
  return read_callers(file);
}

}  // namespace

TEST_CASE("a token file names callers and their roles") {
  const auto callers =
      read("# who may\nsecret-1\n\nread secret-2 prometheus  # scrapes\nfeedback secret-3\nadmin secret-4 alice\n");
  REQUIRE_MESSAGE(callers, callers.error().message);
  REQUIRE(callers->size() == 4);
  CHECK((*callers)[0].role == Role::admin);
  CHECK((*callers)[1].role == Role::read);
  CHECK((*callers)[1].name == "prometheus");
  CHECK((*callers)[2].name == "feedback");
  CHECK(find_caller(*callers, "Bearer secret-4")->name == "alice");
  for (const char* wrong :
       {"", "Bearer ", "Bearer secret-", "Bearer secret-44", "Basic secret-4", "Bearer  secret-4"}) {
    CAPTURE(wrong);
    CHECK(find_caller(*callers, wrong) == nullptr);
  }
}

TEST_CASE("a wrong line of a token file is named") {
  CHECK(read("boss secret\n").error().message.find("/token:1: expected ROLE TOKEN [NAME]") != std::string::npos);
  CHECK(read("x\nread a b c\n").error().message.find("/token:2") != std::string::npos);
  CHECK(read("client secret\n").error().message.find("/token:1: a client's token needs its name") != std::string::npos);
  CHECK(read("same\nread same\n").error().message.find("twice") != std::string::npos);
  CHECK(read("# nobody\n").error().message.find("missing or empty") != std::string::npos);
}

TEST_CASE("what a role may do") {
  const std::pair<const char*, const char*> looks{"GET", "/admin/v1/status"}, scrapes{"HEAD", "/metrics"},
      talks{"POST", "/v1/chat/completions"}, begins{"POST", "/rl/start_session"}, lists{"GET", "/v1/models"},
      shifts{"PUT", "/admin/v1/reward-spec"}, other{"POST", "/v1"}, brews{"BREW", "/"};
  const auto all = {looks, scrapes, talks, begins, lists, shifts, other, brews};
  const auto allowed = [&](Role role) {
    std::string answers;
    for (const auto& [method, path] : all) answers += may(role, method, path) ? '+' : '-';
    return answers;
  };
  CHECK(allowed(Role::client) == "--+-+---");
  CHECK(allowed(Role::read) == "++--+---");
  CHECK(allowed(Role::feedback) == "+++++---");
  CHECK(allowed(Role::admin) == "++++++++");
}

TEST_CASE("a rate limit lets bursts through and refills") {
  RateLimit limit(10);
  RateLimit::Time now{1h};
  for (int i = 0; i < 10; ++i) CHECK(limit.allow(now));
  CHECK_FALSE(limit.allow(now));
  now += 100ms;
  CHECK(limit.allow(now));
  CHECK_FALSE(limit.allow(now));
  now += 1h;
  for (int i = 0; i < 10; ++i) CHECK(limit.allow(now));
  CHECK_FALSE(limit.allow(now));
  RateLimit slow(0.5);  // less than one a second
  CHECK(slow.allow(now));
  CHECK_FALSE(slow.allow(now + 1s));
  CHECK(slow.allow(now + 2s));
  RateLimit none(0);
  for (int i = 0; i < 1000; ++i) CHECK(none.allow(now));
}

TEST_CASE("each client has a rate of its own, and who has been quiet is forgotten") {
  RateLimits limits(2);
  RateLimit::Time now{1h};
  for (int i = 0; i < 2; ++i) CHECK(limits.allow("ada", now));
  CHECK_FALSE(limits.allow("ada", now));
  CHECK(limits.allow("bob", now));
  for (int i = 0; i < 100'000; ++i) {
    now += 1ms;
    limits.allow("client-" + std::to_string(i), now);
  }
  CHECK(limits.remembered() < 4096);
  CHECK(limits.allow("ada", now));
}
