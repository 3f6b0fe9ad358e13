// What the server turns away: malformed, too large, too many, unknown, from elsewhere.
#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/http_rules.hpp"
#include "tests/runtime/http_fixture.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;
using namespace std::chrono_literals;

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

TEST_CASE("beyond 256 connections only probes are served, beyond 272 none, and room comes back") {
  const HttpServer server = serve(say_ok);
  std::vector<Wire> idle;
  for (int i = 0; i < 256; ++i) idle.emplace_back(server.port());
  CHECK(get(server).status == 503);
  CHECK(get(server, "/livez").status == 200);
  for (int i = 0; i < 16; ++i) idle.emplace_back(server.port());
  const Wire extra(server.port());
  CHECK(status_of(extra.receive()) == 503);

  idle.front().send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(status_of(idle.front().receive("ok")) == 200);
  idle.clear();
  int status = 0;
  for (int i = 0; i < 50 && status != 200; ++i) {  // the server notices the closed ones in its own time
    std::this_thread::sleep_for(20ms);
    status = get(server).status;
  }
  CHECK(status == 200);
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

TEST_CASE("a role does what it may, and the page's own files are open") {
  const TemporaryDirectory folder;
  HttpSettings settings;
  settings.token_file = folder.path() + "/token";
  std::ofstream(settings.token_file)
      << "client c-token ada\nread r-token scraper\nfeedback f-token app\nadmin a-token alice\n";
  std::string who, client;
  const HttpServer server = serve(
      [&](const HttpRequest& request, const HttpReply& reply) {
        who = request.sender.name;
        client = request.sender.client;
        say_ok(request, reply);
      },
      settings);
  const auto status = [&](const char* token, const char* method, const char* path) {
    HttpCall call = call_to(server, path);
    call.method = method;
    call.token = token;
    return http_call(call)->status;
  };
  CHECK(status("r-token", "GET", "/metrics") == 200);
  CHECK(who == "scraper");
  CHECK(status("r-token", "POST", "/v1/feedback") == 403);
  CHECK(status("f-token", "POST", "/v1/feedback") == 200);
  CHECK(client.empty());
  CHECK(status("c-token", "POST", "/v1/feedback") == 200);
  CHECK(client == "ada");
  CHECK(status("c-token", "GET", "/admin/v1/trajectories") == 403);
  CHECK(status("f-token", "PUT", "/admin/v1/reward-spec") == 403);
  CHECK(status("a-token", "PUT", "/admin/v1/reward-spec") == 200);
  CHECK(who == "alice");
  CHECK(status("", "GET", "/") == 200);
  CHECK(status("", "GET", "/page/page.js") == 200);
  CHECK(status("", "POST", "/") == 401);
  CHECK(status("", "GET", "/pages") == 401);
}

TEST_CASE("a value cannot begin another header") {
  const HttpServer server = serve([](const HttpRequest& request, const HttpReply& reply) {
    reply({200, "ok", "text/plain", {{"x-echo", request.query.at("x")}}});
  });
  const auto response = get(server, "/?x=a%0d%0aset-cookie:%20b=c%0d%0a%0d%0a<html>");
  CHECK(response.headers.at("x-echo") == "a  set-cookie: b=c    <html>");
  CHECK(response.headers.count("set-cookie") == 0);
  CHECK(response.body == "ok");
}

TEST_CASE("more requests a second than allowed are refused, probes never") {
  HttpSettings settings;
  settings.requests_per_second = 5;
  const HttpServer server = serve(say_ok, settings);
  int refused = 0;
  for (int i = 0; i < 20; ++i) refused += get(server).status == 429;
  CHECK(refused >= 10);
  for (int i = 0; i < 20; ++i) CHECK(get(server, "/livez").status == 200);
}

TEST_CASE("one client that asks too often is refused, the others are not") {
  HttpSettings settings;
  settings.client_requests_per_second = 5;
  const HttpServer server = serve(say_ok, settings);
  HttpCall call = call_to(server, "/v1/models");
  call.headers = {{"X-Millrace-Client", "mallory"}};
  int refused = 0;
  for (int i = 0; i < 20; ++i) refused += http_call(call)->status == 429;
  CHECK(refused >= 10);
  call.headers = {{"X-Millrace-Client", "ada"}};
  CHECK(http_call(call)->status == 200);
}

TEST_CASE("on loopback a web page can neither rebind its name nor call from elsewhere") {
  const auto status = [](HttpOrigin request, bool loopback = true) {
    HttpSender sender;
    const auto answer = refusal({loopback, "127.0.0.2", {}}, request, sender);
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
