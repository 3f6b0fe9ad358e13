#include "runtime/log.hpp"

#include <unistd.h>

#include <regex>
#include <string>

#include <doctest/doctest.h>

using namespace millrace;

namespace {

// What is written to stderr meanwhile.
template <class Work>
std::string captured(Work work) {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(pipe[1], STDERR_FILENO);
  ::close(pipe[1]);
  work();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  char text[4096];
  const auto count = ::read(pipe[0], text, sizeof text);
  ::close(pipe[0]);
  return std::string(text, static_cast<std::size_t>(count));
}

}  // namespace

TEST_CASE("a log line says when, how bad, who and what") {
  const std::string line = captured([] { log_warning("scorer", "no spec named \"x\""); });
  const std::regex form(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning scorer: no spec named "x"\n)");
  CHECK_MESSAGE(std::regex_match(line, form), line);
}

TEST_CASE("a text with line breaks cannot forge a second line") {
  const std::string line = captured([] { log_error("http", "bad\n2026-01-01T00:00:00.000Z info fake: \x1b[2J"); });
  CHECK(line.find('\n') == line.size() - 1);
  CHECK(line.find('\x1b') == std::string::npos);
  CHECK(line.ends_with(" error http: bad 2026-01-01T00:00:00.000Z info fake:  [2J\n"));
}
