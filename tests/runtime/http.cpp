#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "runtime/http_client.hpp"
#include "runtime/http_rules.hpp"
#include "runtime/http_server.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;
using namespace std::chrono_literals;

namespace {

HttpServer serve(HttpHandler handler, HttpSettings settings = {}) {
  settings.port = 0;
  auto server = HttpServer::listen(settings, std::move(handler));
  REQUIRE_MESSAGE(server, server.error().message);
  return std::move(*server);
}

void say_ok(const HttpRequest&, const HttpReply& reply) { reply({200, "ok", "text/plain", {}}); }

HttpCall call_to(const HttpServer& server, const std::string& target = "/") {
  HttpCall call;
  call.address = "127.0.0.1:" + std::to_string(server.port());
  call.target = target;
  call.timeout_s = 10;
  return call;
}

HttpResponse get(const HttpServer& server, const std::string& target = "/") {
  auto response = http_call(call_to(server, target));
  REQUIRE_MESSAGE(response, response.error().message);
  return *response;
}

// A bare connection, for what no decent client sends.
class Wire {
 public:
  explicit Wire(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const timeval limit{5, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  Wire(Wire&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  ~Wire() { ::close(socket_); }

  void send(std::string_view text) const {
    while (!text.empty()) {
      const auto sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server may have hung up already; its answer is what counts
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  // Until the text ends with `end`, or the server closes.
  std::string receive(std::string_view end = "never") const {
    std::string text;
    char part[4096];
    while (!text.ends_with(end)) {
      const auto count = ::recv(socket_, part, sizeof part, 0);
      if (count <= 0) break;
      text.append(part, static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int socket_;
};

int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9, 3)) : 0;
}

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

TEST_CASE("malformed requests are answered with 400 and a closed connection") {
  const HttpServer server = serve(say_ok);
  const std::string host = "Host: localhost\r\n";
  const std::string requests[] = {
      "hello\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",  // no Host
      "GET / HTTP/1.1\r\n" + host + "Host: evil\r\n\r\n",
      "GET / HTTP/9.9\r\n" + host + "\r\n",
      "GET http://localhost/ HTTP/1.1\r\n" + host + "\r\n",
      "GET /?a=%zz HTTP/1.1\r\n" + host + "\r\n",
      "GET /?a=%4 HTTP/1.1\r\n" + host + "\r\n",
      "GET / HTTP/1.1\r\n" + host + "no colon here\r\n\r\n",
      "GET / HTTP/1.1\r\n" + host +
          "X: a\x01"
          "b\r\n\r\n",
      "POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n",
      "POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
      "POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00", 7) + std::string(200, '\x01'),  // TLS on the plain port
  };
  for (const std::string& request : requests) {
    CAPTURE(request);
    const Wire wire(server.port());
    wire.send(request);
    const std::string answer = wire.receive();
    CHECK(status_of(answer) == 400);
    CHECK(answer.find("Connection: close") != std::string::npos);
    CHECK(answer.find("\"type\":\"invalid_request_error\"") != std::string::npos);
  }
  CHECK(get(server).body == "ok");
}

TEST_CASE("bodies and headers are bounded") {
  std::size_t received = 0;
  const HttpServer server = serve([&](const HttpRequest& request, const HttpReply& reply) {
    received = request.body.size();
    say_ok(request, reply);
  });
  constexpr std::size_t limit = 8 << 20;
  HttpCall call = call_to(server);
  call.method = "POST";

  call.body.assign(limit, 'x');
  CHECK(http_call(call)->status == 200);
  CHECK(received == limit);
  call.body += 'x';
  auto response = http_call(call);
  REQUIRE_MESSAGE(response, response.error().message);
  CHECK(response->status == 413);

  {  // no length given beforehand
    const Wire wire(server.port());
    wire.send("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    const std::string chunk = "100000\r\n" + std::string(1 << 20, 'x') + "\r\n";
    for (int i = 0; i < 9; ++i) wire.send(chunk);
    CHECK(status_of(wire.receive()) == 413);
  }

  call.body.clear();
  call.headers = {{"X-Long", std::string(30 << 10, 'x')}, {"X-Longer", std::string(33 << 10, 'x')}};
  CHECK(http_call(call)->status == 200);
  call.headers = {{"X-Long", std::string(30 << 10, 'x')}, {"X-Longer", std::string(34 << 10, 'x')}};
  response = http_call(call);
  REQUIRE_MESSAGE(response, response.error().message);
  CHECK(response->status == 431);
}

TEST_CASE("the 257th connection is turned away, and room comes back") {
  const HttpServer server = serve(say_ok);
  std::vector<Wire> idle;
  for (int i = 0; i < 256; ++i) idle.emplace_back(server.port());
  const Wire extra(server.port());
  CHECK(status_of(extra.receive()) == 503);

  idle.back().send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(status_of(idle.back().receive("ok")) == 200);
  idle.clear();
  int status = 0;
  for (int i = 0; i < 50 && status != 200; ++i) {  // the server notices the closed ones in its own time
    std::this_thread::sleep_for(20ms);
    status = get(server).status;
  }
  CHECK(status == 200);
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

TEST_CASE("with a token only the probes are open") {
  const TemporaryDirectory folder;
  HttpSettings settings;
  settings.token_file = folder.path() + "/token";
  std::ofstream(settings.token_file) << "s3cret-token\n";
  const HttpServer server = serve(say_ok, settings);
  HttpCall call = call_to(server, "/metrics");
  for (const char* wrong : {"", "s3cret", "s3cret-token-and-more", "S3cret-token", "s3cret-tokens3cret-token"}) {
    CAPTURE(wrong);
    call.token = wrong;
    const auto response = http_call(call);
    CHECK(response->status == 401);
    CHECK(response->headers.at("www-authenticate") == "Bearer realm=\"millrace\"");
    CHECK(nlohmann::json::parse(response->body).at("error").at("type") == "authentication_error");
  }
  call.token = "s3cret-token";
  CHECK(http_call(call)->status == 200);
  call.token.clear();
  call.headers = {{"Authorization", "bearer s3cret-token"}};  // the scheme's case does not matter
  CHECK(http_call(call)->status == 200);
  call.headers = {{"Authorization", "Basic s3cret-token"}};
  CHECK(http_call(call)->status == 401);
  CHECK(get(server, "/livez").status == 200);
  CHECK(get(server, "/readyz?verbose").status == 200);
  CHECK(get(server, "/livez/../metrics").status == 401);

  const Wire wire(server.port());  // nobody without a token makes the server take a body
  wire.send("POST /v1/feedback HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
  CHECK(status_of(wire.receive()) == 401);
}

TEST_CASE("on loopback a web page can neither rebind its name nor call from elsewhere") {
  const auto status = [](HttpOrigin request, bool loopback = true) {
    const auto answer = refusal({loopback, "127.0.0.2", ""}, request);
    return answer ? answer->status : 200;
  };
  for (const char* host :
       {"localhost", "LocalHost:8700", "127.0.0.1", "127.0.0.1:1", "[::1]:8700", "127.0.0.2:8700", ""}) {
    CAPTURE(host);
    CHECK(status({"/", host, "", ""}) == 200);
  }
  for (const char* host : {"evil.example", "evil.example:8700", "localhost.evil.example", "127.0.0.1.evil.example",
                           "[::2]", "[", "0.0.0.0:8700"}) {
    CAPTURE(host);
    CHECK(status({"/", host, "", ""}) == 421);
    CHECK(status({"/", host, "", ""}, false) == 200);  // elsewhere names are as they are, and a token is asked for
  }
  CHECK(status({"/", "localhost:8700", "http://localhost:8700", ""}) == 200);
  for (const char* origin :
       {"http://evil.example", "null", "http://localhost:3000", "http://localhost:8700.evil.example"}) {
    CAPTURE(origin);
    CHECK(status({"/", "localhost:8700", origin, ""}) == 403);
  }

  const HttpServer server = serve(say_ok);
  HttpCall call = call_to(server);
  call.headers = {{"Host", "evil.example"}};
  CHECK(http_call(call)->status == 421);
}

TEST_CASE("listen says what is wrong") {
  const TemporaryDirectory folder;
  const auto error = [](HttpSettings settings) {
    const auto server = HttpServer::listen(settings, say_ok);
    return server ? "listens" : server.error().message;
  };
  const HttpServer first = serve(say_ok);
  HttpSettings settings;
  settings.port = first.port();
  const std::string name = "127.0.0.1:" + std::to_string(first.port());
  CHECK(error(settings) == name + " is in use: stop what listens there, or set http.port");

  settings.port = 0;
  settings.address = "here";
  CHECK(error(settings) == "http.address 'here' is not an IP address: 127.0.0.1 or 0.0.0.0, say");
  settings.address = "0.0.0.0";
  CHECK(error(settings) == "http.token_file is needed to listen on 0.0.0.0:0: off loopback every caller needs a token");
  settings.token_file = folder.path() + "/token";
  CHECK(error(settings).find("token is missing or empty") != std::string::npos);
  std::ofstream(settings.token_file) << "\n";
  CHECK(error(settings).find("token is missing or empty") != std::string::npos);
  std::ofstream(settings.token_file) << "x\n";
  CHECK(error(settings) == "listens");
  settings.address = "203.0.113.7";
  CHECK(error(settings) == "http.address 203.0.113.7 is not an address of this machine");
  settings.address = "localhost";
  CHECK(error(settings) == "listens");
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
