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
  CHECK(read("same\nread same\n").error().message.find("twice") != std::string::npos);
  CHECK(read("# nobody\n").error().message.find("missing or empty") != std::string::npos);
}

TEST_CASE("what a call needs") {
  CHECK(role_needed("GET", "/admin/v1/status") == Role::read);
  CHECK(role_needed("HEAD", "/metrics") == Role::read);
  CHECK(role_needed("POST", "/v1/chat/completions") == Role::feedback);
  CHECK(role_needed("POST", "/rl/start_session") == Role::feedback);
  CHECK(role_needed("PUT", "/admin/v1/reward-spec") == Role::admin);
  CHECK(role_needed("POST", "/v1") == Role::admin);
  CHECK(role_needed("BREW", "/") == Role::admin);
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
  RateLimit none(0);
  for (int i = 0; i < 1000; ++i) CHECK(none.allow(now));
}
