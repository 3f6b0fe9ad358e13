#include "runtime/websocket_client.hpp"

#include <chrono>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/websocket.hpp>

namespace millrace {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t max_message = 16 << 20;  // bytes

struct Url {
  std::string host;
  std::string port = "80";
  std::string path = "/";
};

expected<Url> split(const std::string& url) {
  constexpr std::string_view scheme = "ws://";
  Url result;
  if (!url.starts_with(scheme)) return fail("'" + url + "' is not ws://HOST:PORT/PATH");
  const std::size_t slash = url.find('/', scheme.size());
  result.host = url.substr(scheme.size(), slash - scheme.size());
  if (slash != std::string::npos) result.path = url.substr(slash);
  if (const std::size_t colon = result.host.rfind(':'); colon != std::string::npos) {
    result.port = result.host.substr(colon + 1);
    result.host.erase(colon);
  }
  if (result.host.empty()) return fail("'" + url + "' is not ws://HOST:PORT/PATH");
  return result;
}

}  // namespace

struct WebSocketClient::State {
  asio::io_context context;
  websocket::stream<beast::tcp_stream> stream{context};
  std::string url;

  // Runs the operation that was just started until it ends or its time is over.
  expected<void> run(const error_code& code, double timeout_s) {
    context.restart();
    context.run_for(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(timeout_s)));
    if (!context.stopped()) {
      beast::get_lowest_layer(stream).close();
      context.run();
      return fail(url + ": timeout: no answer in time");
    }
    if (code) return fail(url + ": " + code.message());
    return {};
  }
};

WebSocketClient::WebSocketClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
WebSocketClient::WebSocketClient(WebSocketClient&&) noexcept = default;
WebSocketClient& WebSocketClient::operator=(WebSocketClient&&) noexcept = default;
WebSocketClient::~WebSocketClient() = default;

expected<WebSocketClient> WebSocketClient::connect(const std::string& url, double timeout_s) {
  const auto parts = split(url);
  if (!parts) return tl::unexpected(parts.error());
  auto state = std::make_unique<State>();
  state->url = url;
  error_code code;
  const auto endpoints = tcp::resolver(state->context).resolve(parts->host, parts->port, code);
  if (code) return fail(url + ": " + code.message());
  const auto finish = [&code](error_code result, auto&&...) { code = result; };
  beast::get_lowest_layer(state->stream).async_connect(endpoints, finish);
  if (auto connected = state->run(code, timeout_s); !connected) return tl::unexpected(connected.error());
  state->stream.read_message_max(max_message);
  state->stream.async_handshake(parts->host + ":" + parts->port, parts->path, finish);
  if (auto agreed = state->run(code, timeout_s); !agreed) return tl::unexpected(agreed.error());
  return WebSocketClient(std::move(state));
}

expected<void> WebSocketClient::send(const std::string& text, double timeout_s) {
  error_code code;
  state_->stream.async_write(asio::buffer(text), [&code](error_code result, std::size_t) { code = result; });
  return state_->run(code, timeout_s);
}

expected<std::string> WebSocketClient::receive(double timeout_s) {
  error_code code;
  beast::flat_buffer buffer;
  state_->stream.async_read(buffer, [&code](error_code result, std::size_t) { code = result; });
  if (auto read = state_->run(code, timeout_s); !read) return tl::unexpected(read.error());
  return beast::buffers_to_string(buffer.data());
}

}  // namespace millrace
