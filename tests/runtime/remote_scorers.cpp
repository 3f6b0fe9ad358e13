// Scorers that are somebody else: asked at once, in time, again when they fail; a failure is never a score (B22).
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include <nlohmann/json.hpp>

#include "runtime/reward.hpp"
#include "tests/runtime/http_fixture.hpp"

using namespace millrace;
using nlohmann::json;

namespace {

using Answering = std::function<HttpResponse(int call, const json& question)>;

// A scoring service; `call` counts from 1.
struct Service {
  std::atomic<int> calls = 0;
  std::mutex mutex;
  json last_question;
  std::vector<std::jthread>
      workers;  // one an answer, so that a slow one holds up nobody; joined once the server is gone
  HttpServer server;

  explicit Service(const Answering& answering)
      : server(serve([this, answering](const HttpRequest& request, const HttpReply& reply) {
          const std::lock_guard lock(mutex);
          workers.emplace_back([this, answering, reply, body = request.body] {
            const json question = json::parse(body);
            {
              const std::lock_guard lock_of_worker(mutex);
              last_question = question;
            }
            reply(answering(++calls, question));
          });
        })) {}
  json last() {
    const std::lock_guard lock(mutex);
    return last_question;
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server.port()); }
};

HttpResponse say(const json& body, int status = 200) { return {status, body.dump(), "application/json", {}}; }

RewardSpec spec(const std::vector<json>& parts) {
  auto made = RewardSpec::parse({{"name", "remote"}, {"parts", parts}});
  REQUIRE_MESSAGE(made, made.error().message);
  return std::move(*made);
}

json part(const char* name, const std::string& url, double weight = 1, json more = json::object()) {
  json made = {{"name", name}, {"kind", "http"}, {"weight", weight}, {"url", url}, {"timeout_s", 2}, {"retries", 0}};
  made.update(more);
  return made;
}

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("both shapes are asked as their services expect it, and weights add them up") {
  Service verify([](int, const json&) { return say({{"reward", 0.5}, {"more", 1}}); });
  Service rewards([](int, const json&) { return say({{"rewards", {0.25}}}); });
  const RewardSpec both = spec({part("verify", verify.url() + "/verify"),
                                part("rewards", rewards.url() + "/get_reward", 2, {{"shape", "rewards"}}),
                                {{"name", "here"}, {"kind", "letter_share"}, {"weight", 1}, {"letters", "a"}}});
  CHECK(both.remote());
  const auto score = both.ask({"aab", "42", "say"});
  REQUIRE_MESSAGE(score, score.error().message);
  CHECK(score->total == doctest::Approx(0.5 + 2 * 0.25 + 2.0 / 3));
  CHECK(score->parts.size() == 3);
  CHECK(verify.last()["response"]["output"][0]["content"][0]["text"] == "aab");
  CHECK(verify.last()["responses_create_params"]["input"][0]["content"] == "say");
  CHECK(rewards.last()["query"] == json{"sayaab"});
  CHECK(rewards.last()["labels"] == json{"42"});
}

TEST_CASE("errors, numbers that are none and silence are failures, unless the part may be omitted") {
  Service broken([](int, const json&) { return say({{"error", "x"}}, 400); });
  Service not_a_number([](int, const json&) { return say({{"reward", nullptr}}); });
  Service infinite([](int, const json&) { return HttpResponse{200, R"({"reward": 1e999})", "application/json", {}}; });
  Service slow([](int, const json&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    return say({{"reward", 0.9}});
  });
  Service good([](int, const json&) { return say({{"reward", 0.4}}); });
  const auto ask = [](const std::vector<json>& parts) { return spec(parts).ask({"a", "", "t"}); };
  CHECK(ask({part("p", good.url())})->total == 0.4);
  CHECK(ask({part("p", broken.url())}).error().message.find("400") != std::string::npos);
  CHECK(ask({part("p", not_a_number.url())}).error().message.find("not a finite number") != std::string::npos);
  CHECK_FALSE(ask({part("p", infinite.url())}));
  const double seconds = seconds_of([&] {
    CHECK(ask({part("p", slow.url(), 1, {{"timeout_s", 0.1}})}).error().message.find("did not answer") !=
          std::string::npos);
  });
  CHECK(seconds < 0.24);
  const auto without = ask({part("good", good.url()), part("bad", broken.url(), 1, {{"on_failure", "omit"}})});
  REQUIRE(without);
  CHECK(without->total == 0.4);
  CHECK(without->parts.size() == 1);
  CHECK_FALSE(ask({part("bad", broken.url(), 1, {{"on_failure", "omit"}})}));
  CHECK_FALSE(ask({part("good", good.url()), part("bad", broken.url())}));
}

TEST_CASE("a service that is down for a moment is asked again, one that says no is not") {
  Service shaky([](int call, const json&) { return call < 3 ? say({}, 503) : say({{"reward", 1}}); });
  CHECK(spec({part("p", shaky.url(), 1, {{"retries", 2}})}).ask({"a", "", "t"})->total == 1);
  CHECK(shaky.calls == 3);
  Service refusing([](int, const json&) { return say({}, 401); });
  CHECK_FALSE(spec({part("p", refusing.url(), 1, {{"retries", 5}})}).ask({"a", "", "t"}));
  CHECK(refusing.calls == 1);
}

TEST_CASE("parts are asked at once") {
  const auto late = [](int, const json&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return say({{"reward", 1}});
  };
  Service a(late), b(late), c(late);
  const RewardSpec three = spec({part("a", a.url()), part("b", b.url()), part("c", c.url())});
  const double seconds = seconds_of([&] {
    const auto score = three.ask({"x", "", "t"});
    REQUIRE_MESSAGE(score, score.error().message);
    CHECK(score->total == 3);
  });
  CHECK(seconds < 0.45);
}

TEST_CASE("a judge grades by its rubric and is not asked twice") {
  Service judge([](int, const json& question) {
    const std::string answer = question["messages"][1]["content"];
    const char* words = answer.find("good") != std::string::npos ? "Well put. 2 small flaws.\n8" : "I cannot say.";
    return say({{"choices", {{{"message", {{"role", "assistant"}, {"content", words}}}}}}});
  });
  const json judging = {{"name", "style"}, {"kind", "judge"},      {"weight", 1}, {"url", judge.url() + "/v1"},
                        {"model", "m"},    {"rubric", "Be kind."}, {"retries", 0}};
  const RewardSpec style = spec({judging});
  for (int i = 0; i < 3; ++i) CHECK(style.ask({"a good answer", "", "t"})->total == doctest::Approx(0.8));
  CHECK(judge.calls == 1);
  CHECK(judge.last()["messages"][0]["content"].get<std::string>().find("Be kind.") == 0);
  CHECK(judge.last()["temperature"] == 0);
  CHECK_FALSE(style.ask({"another answer", "", "t"}));
  CHECK_FALSE(style.ask({"another answer", "", "t"}));
  CHECK(judge.calls == 3);  // a failure is no judgement
}

TEST_CASE("a part's keys are checked") {
  const auto wrong = [](const json& more) {
    json document = part("p", "http://h:1/x");
    document.update(more);
    const auto made = RewardSpec::parse({{"name", "x"}, {"parts", {document}}});
    return made ? "" : made.error().message;
  };
  CHECK(wrong(json::object()).empty());
  CHECK(wrong({{"url", "ftp://h"}}).find("\"url\"") != std::string::npos);
  CHECK(wrong({{"shape", "round"}}).find("\"shape\"") != std::string::npos);
  CHECK(wrong({{"timeout_s", 0}}).find("\"timeout_s\"") != std::string::npos);
  CHECK(wrong({{"on_failure", "zero"}}).find("\"on_failure\"") != std::string::npos);
  CHECK(wrong({{"kind", "judge"}}).find("\"shape\"") == std::string::npos);
  CHECK(wrong({{"token_file", "/no/such/file"}}).find("\"token_file\"") != std::string::npos);
}
