#pragma once
// One connection of the HTTP server, over bare TCP or TLS. All of it is asynchronous and touched by the server's one
// thread only, so nothing is locked. For http_server.cpp alone.
#include <chrono>
#include <optional>
#include <sstream>
#include <type_traits>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include "runtime/http_reply.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

using TlsStream = beast::ssl_stream<beast::tcp_stream>;

constexpr std::uint64_t max_body = 8 << 20;     // bytes
constexpr std::uint32_t max_header = 64 << 10;  // bytes
constexpr std::size_t max_ahead = 64 << 10;     // bytes that a client may send while it waits for its answer
constexpr auto io_timeout = 30s;                // to send a head, a body, or to take an answer; and idle
constexpr auto farewell = 1s;                   // for a client to read the last answer; also for the whole shutdown

inline std::string chunk_of(const std::string& text) {
  std::ostringstream size;
  size << std::hex << text.size();
  return size.str() + "\r\n" + text + "\r\n";
}

// One connection: read a head, then the body, wait for the handler's answer, write it, begin again. It lives in
// Shared::connections while it is open.
template <class Stream>
class StreamConnection : public Connection {
 public:
  StreamConnection(Stream stream, std::weak_ptr<asio::io_context> context, Shared& shared, bool probes_only)
      : stream_(std::move(stream)), context_(std::move(context)), shared_(shared), probes_only_(probes_only) {}

  void begin(bool full) override {
    const auto go_on = [self = self(), full] {
      if (!full) return self->read_head();
      self->refuse(http_error(503, "too many connections: try again later", "overloaded_error"));
    };
    if constexpr (is_tls) {
      tcp().expires_after(io_timeout);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = self(), go_on](error_code code) { code ? self->close() : go_on(); });
    } else {
      go_on();
    }
  }

  void answer(HttpResponse answer) override {
    if (tcp().socket().is_open()) write(std::move(answer));
  }

  // An answer that is being written goes out first; a stream has no end to wait for.
  void stop() override {
    if (!writing_ || body_) close();
  }

  void write_piece() override {
    if (!body_) return;
    const HttpStream::Waiting waiting = body_->take();
    if (waiting.overflow) return close();
    if (waiting.text.empty() && !waiting.ended) return;  // woken again when there is more
    piece_ = chunked_ && !waiting.text.empty() ? chunk_of(waiting.text) : waiting.text;
    if (chunked_ && waiting.ended) piece_ += "0\r\n\r\n";
    tcp().expires_after(io_timeout);
    asio::async_write(stream_, asio::buffer(piece_),
                      [self = self(), last = waiting.ended](error_code code, std::size_t) {
                        if (code || last) return self->answer_complete(code);
                        self->write_piece();
                      });
  }

 private:
  static constexpr bool is_tls = std::is_same_v<Stream, TlsStream>;

  std::shared_ptr<StreamConnection> self() { return std::static_pointer_cast<StreamConnection>(shared_from_this()); }
  beast::tcp_stream& tcp() { return beast::get_lowest_layer(stream_); }

  void read_head() {
    writing_ = false;
    if (shared_.stopping) return close();
    parser_.emplace();
    parser_->header_limit(max_header);
    parser_->body_limit(max_body);
    tcp().expires_after(io_timeout);
    http::async_read_header(stream_, buffer_, *parser_, [self = self()](error_code code, std::size_t) {
      if (code) return self->reading_failed(code);
      self->check_head();
    });
  }

  // Answers a request that was not read to its end.
  void refuse(HttpResponse answer) {
    keep_alive_ = false;
    write(std::move(answer));
  }

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
    const std::string_view method(head.method_string().data(), head.method_string().size());
    const HttpOrigin origin{request_.path, field(http::field::host), field(http::field::origin),
                            field(http::field::authorization), method};
    if (auto answer = refusal(shared_.rules, origin, request_.sender)) return refuse(std::move(*answer));
    if (!is_probe(request_.path)) {
      const auto now = std::chrono::steady_clock::now();
      if (!shared_.rate.allow(now)) return too_many("http.requests_per_second");
      const auto named = head["x-millrace-client"];
      const std::string client = !request_.sender.client.empty() ? request_.sender.client
                                 : !named.empty()                ? std::string(named)
                                                                 : request_.sender.name;
      if (!shared_.client_rates.allow(client, now)) return too_many("http.client_requests_per_second");
    }
    if (probes_only_ && !is_probe(request_.path)) {
      return refuse(http_error(503, "too many connections: try again later", "overloaded_error"));
    }
    if (beast::iequals(head[http::field::expect], "100-continue")) return write_continue();
    read_body();
  }

  void too_many(const char* limit) {
    HttpResponse answer =
        http_error(429, std::string("too many requests a second (") + limit + ")", "overloaded_error");
    answer.headers["Retry-After"] = "1";
    refuse(std::move(answer));
  }

  void write_continue() {
    auto go_on = std::make_shared<http::response<http::empty_body>>(http::status::continue_, version_);
    http::async_write(stream_, *go_on, [self = self(), go_on](error_code code, std::size_t) {
      code ? self->close() : self->read_body();
    });
  }

  void read_body() {
    tcp().expires_after(io_timeout);
    http::async_read(stream_, buffer_, *parser_, [self = self()](error_code code, std::size_t) {
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
    tcp().expires_never();
    stream_.async_read_some(buffer_.prepare(4096), [self = self()](error_code code, std::size_t count) {
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
    watching_ ? tcp().cancel() : go_on();
  }

  void go_on() {
    answered_ = false;
    keep_alive_ ? read_head() : say_farewell();
  }

  template <class Response>
  void fill_head(Response& response, const HttpResponse& answer) const {
    response.set(http::field::content_type, answer.content_type);
    for (const auto& [name, value] : answer.headers) response.set(header_safe(name), header_safe(value));
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
    tcp().expires_after(io_timeout);
    http::async_write_header(stream_, *serializer_, [self = self()](error_code code, std::size_t) {
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

  void write(HttpResponse answer) {
    writing_ = true;
    if (answer.stream && !head_only_) return write_stream(answer);
    response_.emplace(static_cast<http::status>(answer.status), version_);
    fill_head(*response_, answer);
    response_->body() = std::move(answer.body);
    response_->prepare_payload();
    if (head_only_) response_->body().clear();
    tcp().expires_after(io_timeout);
    http::async_write(stream_, *response_, [self = self()](error_code code, std::size_t) {
      self->response_->body() = {};
      self->answer_complete(code);
    });
  }

  // To close on a client that is still sending would make its kernel throw the answer away: read on for a moment.
  void say_farewell() {
    writing_ = false;
    tcp().expires_after(farewell);
    if constexpr (is_tls) {
      stream_.async_shutdown([self = self()](error_code) { self->close(); });
    } else {
      error_code ignored;
      stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
      discard();
    }
  }

  void discard() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(4096),
                            [self = self()](error_code code, std::size_t) { code ? self->close() : self->discard(); });
  }

  void close() {
    if (const auto caller = std::exchange(caller_, nullptr)) caller->leave();
    body_.reset();
    tcp().close();
    shared_.connections.erase(shared_from_this());
  }

  Stream stream_;
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

}  // namespace millrace
