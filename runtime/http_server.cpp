// One thread moves all bytes: everything below is asynchronous and touched by that thread only, so nothing is locked.
#include "runtime/http_server.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <sstream>
#include <unordered_set>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "runtime/http_rules.hpp"
#include "runtime/log.hpp"

namespace millrace {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr std::uint64_t max_body = 8 << 20;     // bytes
constexpr std::uint32_t max_header = 64 << 10;  // bytes
constexpr std::size_t max_connections = 256;
constexpr std::size_t kept_for_probes = 16;  // connections beyond these that may only ask how the service is
constexpr std::size_t max_ahead = 64 << 10;  // bytes that a client may send while it waits for its answer
constexpr auto io_timeout = 30s;  // to send a head, a body, or to take an answer; and idle
constexpr auto farewell = 1s;     // for a client to read the last answer; also for the whole shutdown

class Connection;

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
  HttpHandler handler;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  bool stopping = false;
};

std::string chunk_of(const std::string& text) {
  std::ostringstream size;
  size << std::hex << text.size();
  return size.str() + "\r\n" + text + "\r\n";
}

// One connection: read a head, then the body, wait for the handler's answer, write it, begin again. It lives in
// Shared::connections while it is open.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::weak_ptr<asio::io_context> context, Shared& shared, bool probes_only)
      : stream_(std::move(socket)), context_(std::move(context)), shared_(shared), probes_only_(probes_only) {}

  void read_head() {
    writing_ = false;
    if (shared_.stopping) return close();
    parser_.emplace();
    parser_->header_limit(max_header);
    parser_->body_limit(max_body);
    stream_.expires_after(io_timeout);
    http::async_read_header(stream_, buffer_, *parser_, [self = shared_from_this()](error_code code, std::size_t) {
      if (code) return self->reading_failed(code);
      self->check_head();
    });
  }

  void answer(HttpResponse answer) {
    if (stream_.socket().is_open()) write(std::move(answer));
  }

  // Answers a request that was not read to its end.
  void refuse(HttpResponse answer) {
    keep_alive_ = false;
    write(std::move(answer));
  }

  // An answer that is being written goes out first; a stream has no end to wait for.
  void stop() {
    if (!writing_ || body_) close();
  }

 private:
  void check_head() {
    const auto& head = parser_->get();
    const auto field = [&](http::field name) { return std::string_view(head[name].data(), head[name].size()); };
    version_ = head.version();
    head_only_ = head.method() == http::verb::head;
    keep_alive_ = head.keep_alive();

    request_ = {};
    if (version_ >= 11 && head.count(http::field::host) != 1) return bad_request("one Host header is needed");
    if (auto split = split_target({head.target().data(), head.target().size()}, request_); !split) {
      return bad_request(split.error().message);
    }
    const HttpOrigin origin{request_.path, field(http::field::host), field(http::field::origin),
                            field(http::field::authorization)};
    if (auto answer = refusal(shared_.rules, origin)) return refuse(std::move(*answer));
    if (probes_only_ && !is_probe(request_.path)) {
      return refuse(http_error(503, "too many connections: try again later", "overloaded_error"));
    }
    if (beast::iequals(head[http::field::expect], "100-continue")) return write_continue();
    read_body();
  }

  void write_continue() {
    auto go_on = std::make_shared<http::response<http::empty_body>>(http::status::continue_, version_);
    http::async_write(stream_, *go_on, [self = shared_from_this(), go_on](error_code code, std::size_t) {
      code ? self->close() : self->read_body();
    });
  }

  void read_body() {
    stream_.expires_after(io_timeout);
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code code, std::size_t) {
      if (code) return self->reading_failed(code);
      self->hand_over();
    });
  }

  void hand_over() {
    const auto& message = parser_->get();
    request_.method = std::string(message.method_string());
    for (const auto& field : message) {
      request_.headers[lower_case({field.name_string().data(), field.name_string().size()})] =
          std::string(field.value());
    }
    request_.body = std::move(parser_->get().body());
    caller_ = std::make_shared<HttpCaller>();
    request_.caller = caller_;
    watch();
    auto reply = std::make_shared<Reply>(context_, weak_from_this());
    try {
      shared_.handler(std::move(request_), [reply](HttpResponse answer) { reply->send(std::move(answer)); });
    } catch (const std::exception& bug) {
      log_error("http", std::string("a handler threw: ") + bug.what());
    }
  }

  void reading_failed(error_code code) {
    if (code == http::error::body_limit) {
      return refuse(http_error(413, "the body is larger than 8 MiB", "invalid_request_error"));
    }
    if (code == http::error::header_limit) {
      return refuse(http_error(431, "the headers are larger than 64 KiB", "invalid_request_error"));
    }
    // What is left of http::error are malformed requests; other errors are the network's, there is no one to answer.
    const bool malformed = code.category() == http::make_error_code(http::error::bad_version).category();
    if (!malformed || code == http::error::end_of_stream || code == http::error::partial_message) return close();
    bad_request(code.message());
  }

  void bad_request(const std::string& why) {
    refuse(http_error(400, "malformed request: " + why, "invalid_request_error"));
  }

  // Reads on while the handler works, to hear it when the caller leaves. What it sends ahead waits in the buffer.
  void watch() {
    if (buffer_.size() > max_ahead) return;
    watching_ = true;
    stream_.expires_never();
    stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](error_code code, std::size_t count) {
      self->watching_ = false;
      self->buffer_.commit(count);
      if (self->answered_) return self->go_on();
      if (!code) return self->watch();
      self->keep_alive_ = false;
      if (self->caller_) self->caller_->leave();
      if (self->body_ || code != asio::error::eof) self->close();  // else it may only have closed its sending half
    });
  }

  // The answer is out. Only one operation may read: the watch has to end before the next begins.
  void answer_complete(error_code code) {
    body_.reset();
    if (code) return close();
    caller_.reset();
    answered_ = true;
    watching_ ? stream_.cancel() : go_on();
  }

  void go_on() {
    answered_ = false;
    keep_alive_ ? read_head() : say_farewell();
  }

  template <class Response>
  void fill_head(Response& response, const HttpResponse& answer) const {
    response.set(http::field::content_type, answer.content_type);
    for (const auto& [name, value] : answer.headers) response.set(name, value);
    response.keep_alive(keep_alive_ && !shared_.stopping);
  }

  // Head first, then pieces as they come, each as a chunk; without chunks the end of the connection ends the body.
  void write_stream(const HttpResponse& answer) {
    body_ = answer.stream;
    chunked_ = version_ >= 11;
    if (!chunked_) keep_alive_ = false;
    head_.emplace(static_cast<http::status>(answer.status), version_);
    fill_head(*head_, answer);
    head_->chunked(chunked_);
    serializer_.emplace(*head_);
    stream_.expires_after(io_timeout);
    http::async_write_header(stream_, *serializer_, [self = shared_from_this()](error_code code, std::size_t) {
      if (code) return self->close();
      if (!self->body_) return;
      self->body_->on_wake([context = self->context_, connection = self->weak_from_this()] {
        const auto running = context.lock();
        if (!running) return;
        asio::post(*running, [connection] {
          if (const auto open = connection.lock()) open->write_piece();
        });
      });
      self->write_piece();
    });
  }

  void write_piece() {
    if (!body_) return;
    const HttpStream::Waiting waiting = body_->take();
    if (waiting.overflow) return close();
    if (waiting.text.empty() && !waiting.ended) return;  // woken again when there is more
    piece_ = chunked_ && !waiting.text.empty() ? chunk_of(waiting.text) : waiting.text;
    if (chunked_ && waiting.ended) piece_ += "0\r\n\r\n";
    stream_.expires_after(io_timeout);
    asio::async_write(stream_, asio::buffer(piece_),
                      [self = shared_from_this(), last = waiting.ended](error_code code, std::size_t) {
                        if (code || last) return self->answer_complete(code);
                        self->write_piece();
                      });
  }

  void write(HttpResponse answer) {
    writing_ = true;
    if (answer.stream && !head_only_) return write_stream(answer);
    response_.emplace(static_cast<http::status>(answer.status), version_);
    fill_head(*response_, answer);
    response_->body() = std::move(answer.body);
    response_->prepare_payload();
    if (head_only_) response_->body().clear();
    stream_.expires_after(io_timeout);
    http::async_write(stream_, *response_, [self = shared_from_this()](error_code code, std::size_t) {
      self->response_->body() = {};
      self->answer_complete(code);
    });
  }

  // To close on a client that is still sending would make its kernel throw the answer away: read on for a moment.
  void say_farewell() {
    writing_ = false;
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(farewell);
    discard();
  }

  void discard() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](error_code code, std::size_t) {
      code ? self->close() : self->discard();
    });
  }

  void close() {
    if (const auto caller = std::exchange(caller_, nullptr)) caller->leave();
    body_.reset();
    stream_.close();
    shared_.connections.erase(shared_from_this());
  }

  beast::tcp_stream stream_;
  std::weak_ptr<asio::io_context> context_;
  Shared& shared_;
  const bool probes_only_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
  std::optional<http::response<http::empty_body>> head_;  // of a stream
  std::optional<http::response_serializer<http::empty_body>> serializer_;
  std::shared_ptr<HttpStream> body_;
  std::string piece_;
  std::shared_ptr<HttpCaller> caller_;
  HttpRequest request_;
  unsigned version_ = 11;
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool writing_ = false;
  bool chunked_ = true;
  bool watching_ = false;  // a read is under way while the caller waits
  bool answered_ = false;  // ... and has to end before the next begins
};

void Reply::send(HttpResponse answer) {
  if (sent_.exchange(true)) return;
  const auto context = context_.lock();
  if (!context) return;
  asio::post(*context, [connection = connection_, answer = std::move(answer)]() mutable {
    if (const auto open = connection.lock()) open->answer(std::move(answer));
  });
}

}  // namespace

struct HttpServer::State {
  asio::io_context context;  // not {1}: then what the thread itself posts is overtaken by what others post
  tcp::acceptor acceptor{context};
  asio::steady_timer retry{context};
  Shared shared;
  std::weak_ptr<asio::io_context> self;  // the context, alive as long as this is
  std::future<void> thread;

  void accept() {
    acceptor.async_accept([this](error_code code, tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (code) return accept_later();
      const std::size_t open = shared.connections.size();
      const bool full = open >= max_connections + kept_for_probes;
      socket.set_option(tcp::no_delay(true), code);
      const auto connection = std::make_shared<Connection>(std::move(socket), self, shared, open >= max_connections);
      shared.connections.insert(connection);
      full ? connection->refuse(http_error(503, "too many connections: try again later", "overloaded_error"))
           : connection->read_head();
      accept();
    });
  }

  // No file descriptor is free, say: to ask again at once would only spin.
  void accept_later() {
    retry.expires_after(100ms);
    retry.async_wait([this](error_code code) {
      if (!code && acceptor.is_open()) accept();
    });
  }

  void stop() {
    error_code ignored;
    acceptor.close(ignored);
    retry.cancel();
    shared.stopping = true;
    const auto open = shared.connections;  // a copy: those that close leave the original
    for (const auto& connection : open) connection->stop();
  }
};

expected<HttpServer> HttpServer::listen(const HttpSettings& settings, HttpHandler handler) {
  const std::string address = settings.address == "localhost" ? "127.0.0.1" : settings.address;
  const std::string name = settings.address + ":" + std::to_string(settings.port);
  error_code code;
  const auto ip = asio::ip::make_address(address, code);
  if (code) return fail("http.address '" + settings.address + "' is not an IP address: 127.0.0.1 or 0.0.0.0, say");

  auto state = std::make_shared<State>();
  state->self = std::shared_ptr<asio::io_context>(state, &state->context);
  state->shared.rules = {ip.is_loopback(), address, ""};
  state->shared.handler = std::move(handler);
  if (!settings.token_file.empty()) {
    auto token = read_token(settings.token_file);
    if (!token) return tl::unexpected(token.error());
    state->shared.rules.token = std::move(*token);
  } else if (!ip.is_loopback()) {
    return fail("http.token_file is needed to listen on " + name + ": off loopback every caller needs a token");
  }

  const tcp::endpoint endpoint(ip, static_cast<std::uint16_t>(settings.port));
  tcp::acceptor& acceptor = state->acceptor;
  acceptor.open(endpoint.protocol(), code);
  if (!code) acceptor.set_option(asio::socket_base::reuse_address(true), code);
  if (!code) acceptor.bind(endpoint, code);
  if (!code) acceptor.listen(asio::socket_base::max_listen_connections, code);
  if (code == asio::error::address_in_use) return fail(name + " is in use: stop what listens there, or set http.port");
  if (code == boost::system::errc::address_not_available) {
    return fail("http.address " + settings.address + " is not an address of this machine");
  }
  if (code) return fail("cannot listen on " + name + ": " + code.message());

  state->accept();
  state->thread = std::async(std::launch::async, [context = &state->context] { context->run(); });
  return HttpServer(std::move(state));
}

HttpServer::HttpServer(std::shared_ptr<State> state) : state_(std::move(state)) {}
HttpServer::HttpServer(HttpServer&&) noexcept = default;

HttpServer& HttpServer::operator=(HttpServer&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

HttpServer::~HttpServer() {
  if (!state_) return;
  asio::post(state_->context, [state = state_.get()] { state->stop(); });
  if (state_->thread.wait_for(farewell) != std::future_status::ready) state_->context.stop();
  state_->thread.get();
  state_->shared.connections.clear();
  state_->shared.handler = nullptr;
}

int HttpServer::port() const { return state_->acceptor.local_endpoint().port(); }

}  // namespace millrace
