#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <random>
#include <set>

#include "runtime/environment.hpp"
#include "runtime/environments/expression.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;

namespace {

EnvironmentSettings settings_of(const std::string& name) {
  EnvironmentSettings settings;
  settings.name = name;
  if (name == "writing") settings.data = std::string(MILLRACE_SOURCE_DIR) + "/config/tasks/writing.json";
  return settings;
}

std::unique_ptr<Environment> make(const std::string& name) {
  const auto factory = make_environment_factory(settings_of(name));
  REQUIRE_MESSAGE(factory, factory.error().message);
  return (*factory)();
}

// Result of an expression as the tool words it.
std::string calculate(const std::string& expression) {
  const auto value = evaluate(expression);
  return value ? to_text(*value) : value.error().message;
}

std::string writing_error(const std::string& tasks) {
  const TemporaryDirectory directory;
  EnvironmentSettings settings = settings_of("writing");
  settings.data = directory.path() + "/tasks.json";
  std::ofstream(settings.data) << tasks;
  const auto factory = make_environment_factory(settings);
  return factory ? "no error" : factory.error().message;
}

}  // namespace

TEST_CASE("an unknown environment is an error that lists the known ones") {
  const auto factory = make_environment_factory(settings_of("writting"));
  REQUIRE(!factory);
  CHECK(factory.error().message ==
        "\"environment.name\": unknown environment \"writting\": did you mean \"writing\"? There are writing, "
        "calculator, letters, guess, shell, process, openenv, http, turns, live");
}

TEST_CASE("the same number gives the same task, in another environment object, too") {
  for (const char* name : {"writing", "calculator", "letters", "turns"}) {
    CAPTURE(name);
    const auto first = make(name), second = make(name);
    for (const std::uint64_t episode : {0ull, 1ull, 95ull, 96ull, 18446744073709551615ull}) {
      const auto task = first->reset(episode);
      first->reset(episode + 7);
      REQUIRE(task);
      CHECK(task->text == second->reset(episode)->text);
      CHECK(task->text == task->prompt.back().content);
      CHECK(task->prompt.back().role == "user");
    }
  }
}

TEST_CASE("writing: prompt, one turn") {
  const auto environment = make("writing");
  const auto task = environment->reset(3);
  REQUIRE(task);
  REQUIRE(task->prompt.size() == 2);
  CHECK(task->prompt[0].role == "system");
  CHECK(task->prompt[0].content == "You are a writer.");
  CHECK(task->text.find("{}") == std::string::npos);
  CHECK(task->expected.empty());
  const auto observation = environment->step("The sea is blue.");
  REQUIRE(observation);
  CHECK(observation->over);
  CHECK(!observation->truncated);
}

TEST_CASE("writing: every pair of form and topic once in 96 episodes, in another order each round") {
  const auto environment = make("writing");
  std::vector<std::string> first, second;
  for (std::uint64_t i = 0; i < 96; ++i) {
    first.push_back(environment->reset(i)->text);
    second.push_back(environment->reset(96 + i)->text);
  }
  const std::set<std::string> pairs(first.begin(), first.end());
  CHECK(pairs.size() == 96);
  CHECK(pairs == std::set<std::string>(second.begin(), second.end()));
  CHECK(pairs.count("Write one sentence about the sea.") == 1);
  CHECK(pairs.count("Say a line about a mountain.") == 1);
  CHECK(first != second);
  const auto ends = [](const std::string& text) { return text.substr(text.size() - 6); };
  int same_end = 0;  // neighbours that end alike; by chance about 6 of 95
  for (std::size_t i = 1; i < 96; ++i) same_end += ends(first[i]) == ends(first[i - 1]) ? 1 : 0;
  CHECK(same_end < 20);
}

TEST_CASE("writing: a broken file with tasks is an error that names file and key") {
  CHECK(writing_error(R"({"system": "s", "forms": ["{}"], "topics": ["t"]})") == "no error");
  CHECK(writing_error(R"({"system": "s", "forms": ["x"], "topics": ["t"]})").find("expected {}") != std::string::npos);
  CHECK(writing_error(R"({"system": "s", "forms": [], "topics": ["t"]})").find("\"forms\"") != std::string::npos);
  CHECK(writing_error(R"({"system": "s", "forms": ["{}"], "topics": [1]})").find("\"topics\"") != std::string::npos);
  CHECK(writing_error(R"({"forms": ["{}"], "topics": ["t"]})").find("\"system\"") != std::string::npos);
  CHECK(writing_error(R"({"tpics": []})").find("unknown key \"tpics\"") != std::string::npos);
  CHECK(writing_error("[]").find("expected an object") != std::string::npos);
  CHECK(writing_error("{").find("tasks.json:1:2: ") != std::string::npos);
}

TEST_CASE("letters and calculator take no file") {
  for (const char* name : {"letters", "calculator", "turns"}) {
    EnvironmentSettings settings = settings_of(name);
    settings.data = "x.json";
    CHECK(!make_environment_factory(settings));
  }
}

TEST_CASE("turns: asks for more, however often") {
  const auto environment = make("turns");
  CHECK(environment->reset(0)->text == "say:");
  for (int turn = 0; turn < 3; ++turn) {
    const auto observation = environment->step("a");
    REQUIRE(observation);
    CHECK_FALSE(observation->over);
    CHECK(observation->message.content == "more:");
  }
}

TEST_CASE("letters: one turn on the same prompt") {
  const auto environment = make("letters");
  const auto task = environment->reset(12);
  REQUIRE(task);
  REQUIRE(task->prompt.size() == 1);
  CHECK(task->text == "say:");
  CHECK(environment->step("aaa")->over);
}

TEST_CASE("calculator: a call is answered, a turn without one ends the task") {
  const auto environment = make("calculator");
  const auto task = environment->reset(0);
  REQUIRE(task);
  CHECK(task->prompt[0].content.find("<calc>12*3</calc>") != std::string::npos);

  const auto observation = environment->step("Let me see: <calc>12*(3 + 4)</calc> and <calc>1/0</calc>");
  REQUIRE(observation);
  CHECK(!observation->over);
  CHECK(observation->message.role == "tool");
  CHECK(observation->message.content == "84");  // the first call of the turn

  const auto end = environment->step("It is 84.");
  REQUIRE(end);
  CHECK(end->over);
  CHECK(end->message.content.empty());
}

TEST_CASE("calculator: a bad call is told, not punished with a crash") {
  const auto environment = make("calculator");
  const std::map<std::string, std::string> answers = {
      {"<calc>1/0</calc>", "error: division by zero"},
      {"<calc>12*3", "error: malformed call: <calc> without </calc>"},
      {"<calc></calc>", "error: malformed expression after \"\": expected numbers, + - * / and parentheses"},
      {"<calc>9999999999*9999999999</calc>", "error: number too large"},
      {"<calc>2 × 3</calc>", "error: malformed expression after \"2 \": expected numbers, + - * / and parentheses"}};
  for (const auto& [action, answer] : answers) {
    CAPTURE(action);
    const auto observation = environment->step(action);
    REQUIRE(observation);
    CHECK(!observation->over);
    CHECK(observation->message.content == answer);
  }
  CHECK(environment->step("</calc> 3 <calc")->over);  // no call in it
}

TEST_CASE("calculator: tasks vary, and the expected answer is that of the expression") {
  const auto environment = make("calculator");
  std::set<std::string> texts;
  for (std::uint64_t episode = 0; episode < 500; ++episode) {
    const auto task = environment->reset(episode);
    REQUIRE(task);
    texts.insert(task->text);
    const std::string expression = task->text.substr(8, task->text.size() - 9);  // "What is ...?"
    const auto observation = environment->step("<calc>" + expression + "</calc>");
    REQUIRE(observation);
    CHECK(observation->message.content == task->expected);
  }
  CHECK(texts.size() > 450);
}

TEST_CASE("exact arithmetic") {
  CHECK(calculate("12*3") == "36");
  CHECK(calculate("2 + 3 * 4") == "14");
  CHECK(calculate("(2 + 3) * 4") == "20");
  CHECK(calculate("10 - 4 - 3") == "3");
  CHECK(calculate("100 / 10 / 5") == "2");
  CHECK(calculate("0.1 + 0.2") == "0.3");  // not 0.30000000000000004
  CHECK(calculate("1/3*3") == "1");
  CHECK(calculate("1/8") == "0.125");
  CHECK(calculate("-1/8") == "-0.125");
  CHECK(calculate("10/3") == "about 3.3333333333");
  CHECK(calculate("--2 + -(3)") == "-1");
  CHECK(calculate("2*-3") == "-6");
  CHECK(calculate(".5+1.") == "1.5");
  CHECK(calculate("9223372036854775807") == "9223372036854775807");
  CHECK(calculate("-9223372036854775807") == "-9223372036854775807");
  CHECK(calculate("1/9223372036854775807") == "about 0.0000000000");
  CHECK(calculate("9223372036854775806/9223372036854775807") == "about 0.9999999999");
}

TEST_CASE("arithmetic that fails") {
  CHECK(calculate("1/(2-2)") == "division by zero");
  CHECK(calculate("9223372036854775808") == "number too large");
  CHECK(calculate("9223372036854775807+1") == "number too large");
  CHECK(calculate("-9223372036854775807-1") == "number too large");  // has no negative
  CHECK(calculate("1/9223372036854775807/3") == "number too large");
  CHECK(calculate("0.00000000000000000001") == "number too large");
  for (const char* text : {"", " ", "1 2", "1+", "*2", "(1", "1)", "()", "1..2", ".", "1e5", "2**3", "2^3", "1,000"}) {
    CAPTURE(text);
    CHECK(calculate(text).starts_with("malformed expression"));
  }
  CHECK(calculate(std::string(900, '(')).starts_with("malformed expression"));
  CHECK(calculate(std::string(900, '-') + "1").starts_with("malformed expression"));
  CHECK(calculate(std::string(100000, '1')).starts_with("malformed expression"));
  CHECK(calculate(std::string("1\0+1", 4)).starts_with("malformed expression"));
}

TEST_CASE("any bytes are evaluated or refused") {
  std::mt19937 random(3);
  const std::string alphabet = "0123456789.+-*/() \xff";
  int evaluated = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text(1 + random() % 12, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    const auto value = evaluate(text);
    if (!value) {
      CHECK(!value.error().message.empty());
      continue;
    }
    ++evaluated;
    CHECK(value->denominator > 0);
    CHECK(!to_text(*value).empty());
  }
  CHECK(evaluated > 100);
}
