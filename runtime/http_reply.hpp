#pragma once
// What a connection is to the rest of the HTTP server, and how an answer finds its way to it from any thread. For
// http_server.cpp and http_connection.hpp alone.
#include <atomic>
#include <memory>
#include <unordered_set>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "runtime/http_rules.hpp"

namespace millrace {

namespace asio = boost::asio;

// What the server and the threads that answer know of a connection.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  virtual ~Connection() = default;
  virtual void begin(bool full) = 0;  // `full`: there are too many already, it is only told so
  virtual void answer(HttpResponse answer) = 0;
  virtual void write_piece() = 0;  // of an answer that is a stream
  virtual void stop() = 0;
};

// Carries an answer from any thread to the connection's; without one it answers 500 when the last copy is dropped.
class Reply {
 public:
  Reply(std::weak_ptr<asio::io_context> context, std::weak_ptr<Connection> connection)
      : context_(std::move(context)), connection_(std::move(connection)) {}
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  ~Reply() { send(http_error(500, "the request was not answered", "server_error")); }

  void send(HttpResponse answer);

 private:
  std::weak_ptr<asio::io_context> context_;  // gone when the server is
  std::weak_ptr<Connection> connection_;
  std::atomic<bool> sent_ = false;
};

// What all connections share. Only the server's one thread touches it.
struct Shared {
  HttpRules rules;
  RateLimit rate{0};
  RateLimits client_rates{0};
  HttpHandler handler;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  bool stopping = false;
};

inline void Reply::send(HttpResponse answer) {
  if (sent_.exchange(true)) return;
  const auto context = context_.lock();
  if (!context) return;
  asio::post(*context, [connection = connection_, answer = std::move(answer)]() mutable {
    if (const auto open = connection.lock()) open->answer(std::move(answer));
  });
}

}  // namespace millrace
