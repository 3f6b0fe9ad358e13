// Answers that are sent while they are made: pieces arrive at once, nobody else waits, and a caller who leaves is
// noticed.
#include "runtime/http_stream.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "tests/runtime/http_fixture.hpp"

using namespace millrace;
using namespace std::chrono_literals;

namespace {

const std::string request = "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n";

// Serves one stream at /stream, everything else with "ok".
struct StreamServer {
  std::shared_ptr<HttpStream> stream = std::make_shared<HttpStream>();
  std::promise<void> gone;
  HttpServer server = serve([this](const HttpRequest& incoming, const HttpReply& reply) {
    if (incoming.path != "/stream") return say_ok(incoming, reply);
    incoming.caller->when_gone([this] { gone.set_value(); });
    HttpResponse response{200, "", "text/event-stream", {{"Cache-Control", "no-cache"}}, stream};
    reply(std::move(response));
  });
};

}  // namespace

TEST_CASE("pieces arrive as they are written") {
  StreamServer world;
  world.stream->write("data: early\n\n");  // before anybody has asked
  const Wire wire(world.server.port());
  wire.send(request);
  const std::string head = wire.receive("data: early\n\n\r\n");
  CHECK(head.find("Transfer-Encoding: chunked\r\n") != std::string::npos);
  CHECK(head.find("Content-Type: text/event-stream\r\n") != std::string::npos);
  CHECK(head.find("Content-Length") == std::string::npos);
  world.stream->write("data: late\n\n");
  CHECK(wire.receive("\n\n\r\n") == "c\r\ndata: late\n\n\r\n");
}

TEST_CASE("a stream reads as one body, and the connection serves the next request") {
  StreamServer world;
  const Wire wire(world.server.port());
  wire.send(request + "GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n");  // sent ahead: answered in order
  std::thread writer([stream = world.stream] {
    for (int i = 0; i < 5; ++i) {
      stream->write("data: " + std::to_string(i) + "\n\n");
      std::this_thread::sleep_for(5ms);
    }
    stream->end();
    stream->write("after the end");
  });
  const std::string answers = wire.receive("ok");
  writer.join();
  CHECK(answers.find("data: 4\n\n") != std::string::npos);
  CHECK(answers.find("0\r\n\r\nHTTP/1.1 200 OK") != std::string::npos);
  CHECK(answers.find("after the end") == std::string::npos);

  world.stream = std::make_shared<HttpStream>();
  world.stream->write("a");
  world.stream->write("b");
  world.stream->end();
  CHECK(get(world.server, "/stream").body == "ab");
}

TEST_CASE("to a client of HTTP/1.0 the end of the connection is the end of the stream") {
  StreamServer world;
  world.stream->write("all of it");
  world.stream->end();
  const Wire wire(world.server.port());
  wire.send("GET /stream HTTP/1.0\r\n\r\n");
  CHECK(wire.receive().ends_with("\r\n\r\nall of it"));
}

TEST_CASE("open streams delay no probe and go with the server") {
  std::vector<std::shared_ptr<HttpStream>> streams;
  auto server = std::make_unique<HttpServer>(serve([&](const HttpRequest& incoming, const HttpReply& reply) {
    if (incoming.path == "/livez") return say_ok(incoming, reply);
    streams.push_back(std::make_shared<HttpStream>());
    reply({200, "", "text/event-stream", {}, streams.back()});
  }));
  std::vector<Wire> readers;
  for (int i = 0; i < 256; ++i) {  // every place a request can have
    readers.emplace_back(server->port());
    readers.back().send(request);
    readers.back().receive("\r\n\r\n");
  }
  const auto start = std::chrono::steady_clock::now();
  CHECK(get(*server, "/livez").body == "ok");
  CHECK(std::chrono::steady_clock::now() - start < 500ms);
  server.reset();
  CHECK(std::chrono::steady_clock::now() - start < 2s);
  CHECK(readers.back().receive().empty());
  streams.back()->write("to nobody");
}

TEST_CASE("a caller who leaves is noticed, during a stream and while it waits for any answer") {
  {
    StreamServer world;
    {
      const Wire wire(world.server.port());
      wire.send(request);
      wire.receive("\r\n\r\n");
    }
    CHECK(world.gone.get_future().wait_for(2s) == std::future_status::ready);
  }
  std::promise<void> asked, gone;
  HttpReply kept;
  const HttpServer server = serve([&](const HttpRequest& incoming, const HttpReply& reply) {
    incoming.caller->when_gone([&] { gone.set_value(); });
    kept = reply;
    asked.set_value();
  });
  {
    const Wire wire(server.port());
    wire.send(request);
    asked.get_future().get();
  }
  CHECK(gone.get_future().wait_for(2s) == std::future_status::ready);
}

TEST_CASE("who is gone already is reported at once; who got the whole answer is never reported") {
  HttpCaller caller;
  int calls = 0;
  caller.leave();
  caller.when_gone([&] { ++calls; });
  CHECK(calls == 1);
  caller.leave();
  CHECK(calls == 1);

  std::atomic<int> gone = 0;
  const HttpServer server = serve([&](const HttpRequest& incoming, const HttpReply& reply) {
    incoming.caller->when_gone([&] { ++gone; });
    say_ok(incoming, reply);
  });
  for (int i = 0; i < 5; ++i) CHECK(get(server).body == "ok");
  std::this_thread::sleep_for(50ms);
  CHECK(gone == 0);
}

TEST_CASE("a reader that takes nothing is cut off and its memory is bounded") {
  StreamServer world;
  const Wire wire(world.server.port());
  wire.send(request);
  const std::string piece(1 << 20, 'x');
  auto left = world.gone.get_future();
  for (int i = 0; i < 64 && left.wait_for(10ms) != std::future_status::ready; ++i) world.stream->write(piece);
  CHECK(left.wait_for(2s) == std::future_status::ready);
}

TEST_CASE("event stream messages keep their line breaks") {
  CHECK(sse_message("{}") == "data: {}\n\n");
  CHECK(sse_message("a\nb", "step") == "event: step\ndata: a\ndata: b\n\n");
}
