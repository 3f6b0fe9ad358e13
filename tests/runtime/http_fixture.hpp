#pragma once
// A server on a free port, a client that talks to it, and a bare connection for what no decent client sends.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "runtime/http_client.hpp"
#include "runtime/http_server.hpp"

namespace millrace {

inline HttpServer serve(HttpHandler handler, HttpSettings settings = {}) {
  settings.port = 0;
  auto server = HttpServer::listen(settings, std::move(handler));
  REQUIRE_MESSAGE(server, server.error().message);
  return std::move(*server);
}

inline void say_ok(const HttpRequest&, const HttpReply& reply) { reply({200, "ok", "text/plain", {}}); }

inline HttpCall call_to(const HttpServer& server, const std::string& target = "/") {
  HttpCall call;
  call.address = "127.0.0.1:" + std::to_string(server.port());
  call.target = target;
  call.timeout_s = 10;
  return call;
}

inline HttpResponse get(const HttpServer& server, const std::string& target = "/") {
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

inline int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9, 3)) : 0;
}

}  // namespace millrace
