// The sandbox under hostile commands: none leaves it, none outlives it, each ends in an answer or a reason.
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "runtime/base64.hpp"
#include "runtime/environment.hpp"
#include "runtime/sandbox.hpp"
#include "tests/eventually.hpp"
#include "tests/rounds.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;

namespace {

SandboxLimits small() {
  SandboxLimits limits;
  limits.command_s = 1;
  limits.disk_bytes = 4 << 20;
  return limits;
}

std::size_t processes_of_sandboxes() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stream(entry.path() / "cmdline");
    std::string words;
    std::getline(stream, words);
    count += words.find("bwrap") != std::string::npos && words.find("--unshare-all") != std::string::npos ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("base64 goes there and back") {
  for (const std::string& bytes :
       {std::string(), std::string("a"), std::string("ab"), std::string("abc"), std::string("\0\xFF\x80 line\n", 9)}) {
    CHECK(from_base64(to_base64(bytes)) == bytes);
  }
  CHECK(to_base64("Man") == "TWFu");
  CHECK(to_base64("Ma") == "TWE=");
  CHECK_FALSE(from_base64("T W"));
}

TEST_CASE("a shell task: work, then the check decides") {
  EnvironmentSettings settings;
  settings.name = "shell";
  settings.data = MILLRACE_SOURCE_DIR "/config/tasks/shell";
  settings.step_timeout_s = 5;
  const auto factory = make_environment_factory(settings);
  REQUIRE_MESSAGE(factory, factory.error().message);
  for (const bool right : {true, false}) {
    const auto environment = (*factory)();
    const auto task = environment->reset(0);
    REQUIRE_MESSAGE(task, task.error().message);
    CHECK(task->text.find("words.txt") != std::string::npos);
    CHECK(environment->step("Let me look: <sh>ls; cat no-such-file</sh>")->message.content.find("words.txt\n") == 0);
    CHECK(environment->step("<sh>echo half")->message.content.find("malformed") == 0);
    const auto done =
        environment->step(right ? "<sh>wc -l < words.txt > answer.txt</sh>" : "<sh>echo 7 > answer.txt</sh>");
    REQUIRE(done);
    CHECK_FALSE(done->over);
    CHECK(done->message.role == "tool");
    const auto end = environment->step("It is done.");
    REQUIRE(end);
    CHECK(end->over);
    CHECK(end->reward == (right ? 1 : 0));
  }
  settings.data = "/no/such/folder";
  CHECK_FALSE(make_environment_factory(settings));
}

TEST_CASE("hostile commands stay in the sandbox") {
  const TemporaryDirectory outside;  // nothing may appear here
  const std::string secret = outside.path() + "/secret";
  std::ofstream(secret) << "treasure";
  struct Case {
    const char* command;
    const char* never;  // what its output must not hold
  };
  const std::string read_secret = "cat " + secret + " /proc/1/root" + secret + " ../../../.." + secret;
  const std::string write_outside =
      "echo x > " + outside.path() + "/left-over; ln -s " + outside.path() + " link; echo x > link/y";
  const Case cases[] = {
      {"f() { f | f & }; f", "treasure"},                           // fork bomb
      {"while :; do sh -c 'sleep 100 &' ; done", "treasure"},       // and one that detaches
      {"head -c 100000000 /dev/zero > fill; ls -s fill", "97660"},  // disk fill
      {"i=0; while [ $i -lt 200 ]; do head -c 1000000 /dev/zero > f$i || break; i=$((i+1)); done; ls | wc -l", "200"},
      {"yes", "treasure"},  // endless output
      {"cat /dev/zero", "treasure"},
      {"sleep 100", "treasure"},
      {"kill -9 -1", "treasure"},
      {"kill -9 1; kill -STOP 1; kill -TERM $PPID", "treasure"},
      {"kill -STOP $PPID", "treasure"},
      {"trap '' TERM INT HUP; while :; do :; done", "treasure"},
      {"setsid sh -c 'sleep 100' & sleep 100", "treasure"},
      {"exec 3<>/dev/tcp/127.0.0.1/22; cat /proc/net/dev | grep -v lo:", "eth0"},
      {"cat /etc/shadow /etc/passwd", "root:"},
      {"ls /root /home /var", "."},
      {"mount -t tmpfs none /mnt; unshare -m true && echo escaped", "treasure"},
      {"echo x > /usr/bin/evil || echo refused; touch /evil2 && rm /usr/bin/env; ls /usr/bin/env", "No such"},
      {"ln -s / root; ls root/root root/tmp/../home", "treasure"},
      {"dd if=/dev/mem bs=1 count=1; dd if=/dev/sda bs=1 count=1; ls /dev | wc -l", "treasure"},
      {"echo 'MA== AAAA' > /proc/$PPID/fd/1; echo faked", "treasure"},
      {"perl -e '$x = \"a\" x 2000000000; print length $x'", "2000000000"},  // memory
      {"sh -c 'ulimit -n 100000; ulimit -u 100000' && echo raised", "raised"},
      {read_secret.c_str(), "treasure"},
      {write_outside.c_str(), "treasure"},
      {"env; cat /proc/self/environ", "MILLRACE"},
      {"head -c 300000 /dev/urandom", "treasure"},
  };
  const int rounds = testing::rounds_or(1);
  const auto start = std::chrono::steady_clock::now();
  int ended = 0;
  for (int number = 0; number < rounds * std::ssize(cases); ++number) {
    const Case& hostile = cases[number % std::ssize(cases)];
    CAPTURE(hostile.command);
    auto sandbox = Sandbox::start(small());
    REQUIRE_MESSAGE(sandbox, sandbox.error().message);
    const auto result = sandbox->run(hostile.command);
    if (result) {
      CHECK(result->output.size() <= small().output_bytes);
      CHECK_MESSAGE(result->output.find(hostile.never) == std::string::npos, result->output);
      const auto after = sandbox->run("echo still here");  // it may have been taken down; then there is a reason
      ended += after ? 0 : 1;
    } else {
      CHECK(result.error().message.find("sandbox") != std::string::npos);
      ++ended;
    }
  }
  MESSAGE(rounds * std::ssize(cases) << " hostile commands, " << ended << " sandboxes taken down, "
                                     << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()
                                     << " s");
  // The kernel takes a sandbox's processes down after its outermost one, whose end is all that its owner waits for.
  CHECK(testing::eventually(std::chrono::seconds(2), [] { return processes_of_sandboxes() == 0; }));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(outside.path())) {
    (void)entry;
    ++files;
  }
  CHECK(files == 1);
}
