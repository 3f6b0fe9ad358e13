#pragma once
// A blocking WebSocket connection for environments that speak it. Every call has a deadline.
#include <memory>
#include <string>

#include "config/expected.hpp"

namespace millrace {

class WebSocketClient {
 public:
  // url: ws://HOST[:PORT]/PATH. Errors: no such form, nobody there, no WebSocket there.
  static expected<WebSocketClient> connect(const std::string& url, double timeout_s);
  WebSocketClient(WebSocketClient&&) noexcept;
  WebSocketClient& operator=(WebSocketClient&&) noexcept;
  ~WebSocketClient();

  expected<void> send(const std::string& text, double timeout_s);
  expected<std::string> receive(double timeout_s);

 private:
  struct State;
  explicit WebSocketClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace
