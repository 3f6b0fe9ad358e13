// One thread moves all bytes: what a connection does is in http_connection.hpp.
#include "runtime/http_server.hpp"

#include <future>

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "runtime/http_connection.hpp"

namespace millrace {
namespace {

constexpr std::size_t max_connections = 256;
constexpr std::size_t kept_for_probes = 16;  // connections beyond these that may only ask how the service is

// A certificate (with its chain) and its key, both PEM.
expected<std::shared_ptr<asio::ssl::context>> tls_of(const HttpSettings& settings) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  error_code code;
  context->use_certificate_chain_file(settings.certificate_file, code);
  if (code) return fail("http.certificate_file " + settings.certificate_file + ": " + code.message());
  context->use_private_key_file(settings.key_file, asio::ssl::context::pem, code);
  if (code) return fail("http.key_file " + settings.key_file + ": " + code.message());
  return context;
}

}  // namespace

struct HttpServer::State {
  asio::io_context context;  // not {1}: then what the thread itself posts is overtaken by what others post
  tcp::acceptor acceptor{context};
  asio::steady_timer retry{context};
  Shared shared;
  std::shared_ptr<asio::ssl::context> tls;  // null: bare TCP
  std::weak_ptr<asio::io_context> self;     // the context, alive as long as this is
  std::future<void> thread;

  void accept() {
    acceptor.async_accept([this](error_code code, tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (code) return accept_later();
      const std::size_t open = shared.connections.size();
      const bool full = open >= max_connections + kept_for_probes;
      socket.set_option(tcp::no_delay(true), code);
      const auto connection = connect(std::move(socket), open >= max_connections);
      shared.connections.insert(connection);
      connection->begin(full);
      accept();
    });
  }

  std::shared_ptr<Connection> connect(tcp::socket socket, bool probes_only) {
    beast::tcp_stream stream(std::move(socket));
    if (tls) {
      return std::make_shared<StreamConnection<TlsStream>>(TlsStream(std::move(stream), *tls), self, shared,
                                                           probes_only);
    }
    return std::make_shared<StreamConnection<beast::tcp_stream>>(std::move(stream), self, shared, probes_only);
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
  state->shared.rules = {ip.is_loopback(), address, {}};
  state->shared.rate = RateLimit(settings.requests_per_second);
  state->shared.client_rates = RateLimits(settings.client_requests_per_second);
  state->shared.handler = std::move(handler);
  if (!settings.token_file.empty()) {
    auto callers = read_callers(settings.token_file);
    if (!callers) return tl::unexpected(callers.error());
    state->shared.rules.callers = std::move(*callers);
  } else if (!ip.is_loopback()) {
    return fail("http.token_file is needed to listen on " + name + ": off loopback every caller needs a token");
  }
  if (settings.certificate_file.empty() != settings.key_file.empty()) {
    return fail("http.certificate_file and http.key_file belong together: give both or none");
  }
  if (!settings.certificate_file.empty()) {
    auto tls = tls_of(settings);
    if (!tls) return tl::unexpected(tls.error());
    state->tls = std::move(*tls);
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
