// Environments outside the service: programs on standard input and output that answer well, badly, late or not at all.
#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <mutex>

#include <nlohmann/json.hpp>

#include "runtime/environment.hpp"
#include "runtime/environments/remote_step.hpp"
#include "runtime/piped_process.hpp"
#include "tests/runtime/http_fixture.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;
using nlohmann::json;

namespace {

// A program in Python that answers each line with what `body` prints; `number` counts its lines from 1.
struct Program {
  TemporaryDirectory directory;
  EnvironmentSettings settings;

  explicit Program(const std::string& body) {
    const std::string file = directory.path() + "/environment.py";
    std::ofstream(file)
        << "import json, sys, time\nnumber = 0\nfor line in sys.stdin:\n    message = json.loads(line)\n"
           "    number += 1\n"
        << body << "\n    sys.stdout.flush()\n";
    settings.name = "process";
    settings.command = "python3 " + file;
    settings.step_timeout_s = 5;
  }
  std::unique_ptr<Environment> make() { return (*make_environment_factory(settings))(); }
};

}  // namespace

TEST_CASE("a program plays an episode, and the same program the next one") {
  Program program(R"(
    if message["type"] == "reset":
        print(json.dumps({"prompt": f"episode {message['episode']}, line {number}", "expected": "x"}))
    else:
        over = message["action"] == "stop"
        print(json.dumps({"observation": "seen " + message["action"], "role": "tool", "reward": 0.5,
                          "terminated": over, "truncated": False})))");
  const auto factory = *make_environment_factory(program.settings);
  for (int episode = 0; episode < 2; ++episode) {
    const auto environment = factory();
    const auto task = environment->reset(static_cast<std::uint64_t>(episode));
    REQUIRE_MESSAGE(task, task.error().message);
    // The second episode is the fourth line of one and the same program.
    CHECK(task->text == (episode == 0 ? "episode 0, line 1" : "episode 1, line 4"));
    CHECK(task->expected == "x");
    const auto first = environment->step("go \"on\"\n\xFF");
    REQUIRE_MESSAGE(first, first.error().message);
    CHECK_FALSE(first->over);
    CHECK(first->message.role == "tool");
    CHECK(first->reward == 0.5);
    const auto last = environment->step("stop");
    REQUIRE(last);
    CHECK(last->over);
    CHECK_FALSE(last->truncated);
  }
}

TEST_CASE("what goes wrong is an error that says so, in time, and the next session has a new program") {
  struct Case {
    const char* body;
    const char* error;
  };
  const Case cases[] = {{"    sys.exit(3)", "it has ended"},
                        {"    time.sleep(60)", "timeout"},
                        {"    print('no json')", "not JSON"},
                        {"    print('[]')", "not a JSON object"},
                        {"    print(json.dumps({'error': 'broken tool'}))", "broken tool"},
                        {"    print(json.dumps({'prompt': 7}))", "\"prompt\""},
                        {"    sys.stdout.write('x' * (17 << 20))", "longer than"}};
  for (const Case& bad : cases) {
    CAPTURE(bad.body);
    Program program(bad.body);
    program.settings.step_timeout_s = 1;
    const auto start = std::chrono::steady_clock::now();
    {
      const auto environment = program.make();
      const auto task = environment->reset(1);
      REQUIRE_FALSE(task);
      CHECK_MESSAGE(task.error().message.find(bad.error) != std::string::npos, task.error().message);
    }
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(4));
  }
  EnvironmentSettings settings;
  settings.name = "process";
  CHECK(make_environment_factory(settings).error().message.find("environment.command") != std::string::npos);
  settings.command = "/no/such/program";
  CHECK_FALSE((*make_environment_factory(settings))()->reset(1));
}

TEST_CASE("an environment behind HTTP plays an episode, and is told when one is left") {
  std::mutex mutex;
  std::vector<std::string> calls;
  const HttpServer server = serve([&](const HttpRequest& request, const HttpReply& reply) {
    const json question = json::parse(request.body);
    const std::lock_guard lock(mutex);
    calls.push_back(request.path + " " + question.dump());
    json answer = {{"session", "s-7"}, {"prompt", "Say stop."}, {"expected", "stop"}};
    if (request.path == "/play/step") {
      const bool over = question["action"] == "stop";
      answer = {{"observation", "again"},
                {"role", "tool"},
                {"reward", over ? 1 : 0},
                {"terminated", over},
                {"truncated", false}};
    }
    if (question.value("action", "") == "break") return reply({500, "", "text/plain", {}});
    reply({200, answer.dump(), "application/json", {}});
  });
  EnvironmentSettings settings;
  settings.name = "http";
  settings.url = "http://127.0.0.1:" + std::to_string(server.port()) + "/play";
  settings.step_timeout_s = 5;
  const auto factory = *make_environment_factory(settings);
  {
    const auto environment = factory();
    const auto task = environment->reset(3);
    REQUIRE_MESSAGE(task, task.error().message);
    CHECK(task->expected == "stop");
    const auto first = environment->step("go");
    REQUIRE_MESSAGE(first, first.error().message);
    CHECK(first->message.role == "tool");
    CHECK(environment->step("break").error().message.find("/play/step answered 500") != std::string::npos);
    CHECK(environment->step("stop")->over);
  }
  CHECK(calls.size() == 4);  // one that is over is not closed
  CHECK(calls[0] == R"(/play/reset {"episode":3})");
  CHECK(calls[1] == R"(/play/step {"action":"go","session":"s-7"})");
  { REQUIRE(factory()->reset(4)); }
  CHECK(calls.back() == R"(/play/close {"session":"s-7"})");
  settings.url = "ftp://x";
  CHECK(make_environment_factory(settings).error().message.find("environment.url") != std::string::npos);
}

TEST_CASE("terminated and truncated are two things, and both at once is terminated (B13)") {
  const auto step = [](bool terminated, bool truncated) {
    return *observation_of({{"observation", "x"}, {"reward", 1}, {"terminated", terminated}, {"truncated", truncated}});
  };
  CHECK_FALSE(step(false, false).over);
  CHECK(step(true, false).over);
  CHECK_FALSE(step(true, false).truncated);
  CHECK(step(false, true).over);
  CHECK(step(false, true).truncated);
  CHECK_FALSE(step(true, true).truncated);
  for (const json& bad :
       {json{{"observation", "x"}}, json{{"terminated", 1}, {"truncated", false}},
        json{{"terminated", false}, {"truncated", false}},
        json{{"observation", "x"}, {"reward", "much"}, {"terminated", false}, {"truncated", false}}}) {
    CHECK_FALSE(observation_of(bad));
  }
}

TEST_CASE("a child's output and time are bounded, and what it started goes with it") {
  const auto run = [](const char* command, double timeout_s) {
    auto child = PipedProcess::start({"sh", "-c", command});
    REQUIRE(child);
    return child->finish(timeout_s, 1000);
  };
  CHECK(run("echo out; exit 3", 5).text == "out\n");
  CHECK(run("exit 3", 5).exit_code == 3);
  CHECK(run("kill -9 $$", 5).exit_code == 128 + 9);
  CHECK(run("yes", 5).cut);
  const auto start = std::chrono::steady_clock::now();
  CHECK(run("sleep 60 & sleep 60", 0.2).timed_out);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
}

TEST_CASE("guess takes many turns and rewards the right number") {
  EnvironmentSettings settings;
  settings.name = "guess";
  const auto environment = (*make_environment_factory(settings))();
  for (std::uint64_t episode = 0; episode < 20; ++episode) {
    const auto task = environment->reset(episode);
    REQUIRE(task);
    int low = 1, high = 100, turns = 0;
    for (bool over = false; !over; ++turns) {
      REQUIRE(turns < 8);
      const int middle = (low + high) / 2;
      const auto answer = environment->step("Is it " + std::to_string(middle) + "?");
      REQUIRE(answer);
      over = answer->over;
      CHECK(answer->reward == (over ? 1 : 0));
      answer->message.content == "higher" ? low = middle + 1 : high = middle - 1;
    }
    CHECK(environment->reset(episode)->expected == task->expected);
    CHECK_FALSE(environment->step("99999999999999999999 or what")->over);
  }
}
