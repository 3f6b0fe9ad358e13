#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/runtime/http_fixture.hpp"

using namespace millrace;
using namespace std::chrono_literals;

namespace {

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("a handler sees the request, the caller the answer") {
  HttpRequest seen;
  const HttpServer server = serve([&](HttpRequest request, const HttpReply& reply) {
    seen = std::move(request);
    reply({201, "made", "text/plain", {{"X-Millrace-Policy-Version", "7"}}});
  });
  HttpCall call = call_to(server, "/a/b%20c?state=queued&empty=&flag&text=a%2Bb+%C3%A9%26&state=trained");
  call.method = "PUT";
  call.body = std::string("{\"x\":\0}", 7);
  call.headers = {{"If-Match", "\"3\""}};
  const auto response = http_call(call);
  REQUIRE_MESSAGE(response, response.error().message);
  CHECK(response->status == 201);
  CHECK(response->body == "made");
  CHECK(response->content_type == "text/plain");
  CHECK(response->headers.at("x-millrace-policy-version") == "7");
  CHECK(seen.method == "PUT");
  CHECK(seen.path == "/a/b%20c");
  CHECK(seen.query == std::map<std::string, std::string>{
                          {"state", "trained"}, {"empty", ""}, {"flag", ""}, {"text", "a+b \xC3\xA9&"}});
  CHECK(seen.headers.at("if-match") == "\"3\"");
  CHECK(seen.headers.at("host") == call.address);
  CHECK(seen.body == call.body);
}

TEST_CASE("a request that waits delays no other, and is answered from any thread") {
  std::promise<HttpReply> waiting;
  const HttpServer server = serve([&](const HttpRequest& request, const HttpReply& reply) {
    request.path == "/wait" ? waiting.set_value(reply) : say_ok(request, reply);
  });
  auto slow = std::async(std::launch::async, [&] { return http_call(call_to(server, "/wait")); });
  const HttpReply reply = waiting.get_future().get();
  for (int i = 0; i < 20; ++i) CHECK(get(server).body == "ok");
  CHECK(slow.wait_for(0s) == std::future_status::timeout);
  std::thread([&] { reply({200, "at last", "text/plain", {}}); }).join();
  reply({200, "once more", "text/plain", {}});  // only the first counts
  CHECK(slow.get()->body == "at last");
  CHECK(get(server).body == "ok");
}

TEST_CASE("a handler that drops its reply or throws is answered with 500") {
  const HttpServer server = serve([](const HttpRequest& request, const HttpReply&) {
    if (request.path == "/throw") throw std::runtime_error("a bug");
  });
  for (const char* path : {"/drop", "/throw"}) {
    const HttpResponse response = get(server, path);
    CHECK(response.status == 500);
    CHECK(nlohmann::json::parse(response.body) ==
          nlohmann::json{
              {"error", {{"message", "the request was not answered"}, {"type", "server_error"}, {"param", ""}}}});
  }
}

TEST_CASE("a connection is kept, and pipelined requests are answered in order") {
  const HttpServer server = serve([](const HttpRequest& request, const HttpReply& reply) {
    std::thread([path = request.path, reply] { reply({200, path, "text/plain", {}}); }).detach();
  });
  const Wire wire(server.port());
  for (int i = 0; i < 3; ++i) {
    wire.send("GET /one HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(status_of(wire.receive("/one")) == 200);
  }
  wire.send(
      "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\nGET /b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string answers = wire.receive();
  CHECK(answers.find("/a") < answers.find("/b"));
  CHECK(answers.ends_with("/b"));
}

TEST_CASE("HEAD has the headers of GET and no body; 100-continue is granted") {
  const HttpServer server = serve(say_ok);
  const Wire wire(server.port());
  wire.send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string head = wire.receive("\r\n\r\n");
  CHECK(head.find("Content-Length: 2\r\n") != std::string::npos);
  wire.send("POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  CHECK(wire.receive("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  wire.send("abc");
  CHECK(status_of(wire.receive("ok")) == 200);
}

TEST_CASE("a reader that does not read holds up nobody") {
  const HttpServer server = serve([](const HttpRequest& request, const HttpReply& reply) {
    reply({200, request.path == "/big" ? std::string(16 << 20, 'x') : "ok", "text/plain", {}});
  });
  std::vector<Wire> stuck;
  for (int i = 0; i < 4; ++i) {
    stuck.emplace_back(server.port());
    stuck.back().send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  for (int i = 0; i < 20; ++i) CHECK(get(server).body == "ok");
  CHECK(get(server, "/big").body.size() == 16 << 20);
}

TEST_CASE("the server goes within about a second, with idle and waiting connections, and a late reply is harmless") {
  HttpReply late;
  std::promise<void> waiting;
  auto server = std::make_unique<HttpServer>(serve([&](const HttpRequest& request, const HttpReply& reply) {
    if (request.path != "/wait") return say_ok(request, reply);
    late = reply;
    waiting.set_value();
  }));
  const int port = server->port();
  const Wire idle(port);
  const Wire open(port);
  open.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
  waiting.get_future().get();
  CHECK(seconds_of([&] { server.reset(); }) < 1.5);
  CHECK(open.receive().empty());
  CHECK(idle.receive().empty());
  late({200, "nobody is there", "text/plain", {}});

  HttpSettings settings;
  settings.port = port;
  CHECK(HttpServer::listen(settings, say_ok));  // the address is free again
}

TEST_CASE("an answer that was given goes out although the server ends") {
  std::promise<void> answered;
  auto server = std::make_unique<HttpServer>(serve([&](const HttpRequest&, const HttpReply& reply) {
    reply({200, std::string(1 << 20, 'x'), "text/plain", {}});
    answered.set_value();
  }));
  auto caller = std::async(std::launch::async, [call = call_to(*server)] { return http_call(call); });
  answered.get_future().get();
  server.reset();
  const auto response = caller.get();
  REQUIRE_MESSAGE(response, response.error().message);
  CHECK(response->body.size() == 1 << 20);
}

TEST_CASE("many callers at once all get their own answer") {
  const HttpServer server = serve([](const HttpRequest& request, const HttpReply& reply) {
    std::thread([body = request.body, reply] { reply({200, body, "text/plain", {}}); }).detach();
  });
  std::vector<std::future<bool>> callers;
  for (int caller = 0; caller < 16; ++caller) {
    callers.push_back(std::async(std::launch::async, [&, caller] {
      bool right = true;
      for (int i = 0; i < 20; ++i) {
        HttpCall call = call_to(server);
        call.method = "POST";
        call.body = std::to_string(caller * 1000 + i);
        const auto response = http_call(call);
        right = right && response && response->body == call.body;
      }
      return right;
    }));
  }
  for (auto& caller : callers) CHECK(caller.get());
}

TEST_CASE("the client says what is wrong") {
  const auto error = [](const HttpCall& call) {
    const auto response = http_call(call);
    return response ? "answered" : response.error().message;
  };
  HttpCall call;
  for (const char* address : {"localhost", "::1:8700", ":8700", "http://localhost:8700"}) {
    call.address = address;
    CHECK(error(call) == "address '" + call.address + "' is not HOST:PORT: 127.0.0.1:8700, say");
  }
  {
    const HttpServer server = serve(say_ok);
    call = call_to(server);
  }
  CHECK(error(call) == "no service at " + call.address + ": is it running?");

  HttpReply kept;
  const HttpServer silent = serve([&](const HttpRequest&, const HttpReply& reply) { kept = reply; });
  call = call_to(silent);
  call.timeout_s = 0.2;
  const double seconds = seconds_of([&] { CHECK(error(call) == call.address + " did not answer within 0.2 s"); });
  CHECK(seconds >= 0.2);
  CHECK(seconds < 2);
  call.method = "F O";
  CHECK(error(call) == "'F O' is not an HTTP method");
}
