#include "runtime/http_client.hpp"

#include <chrono>
#include <cstring>
#include <regex>
#include <sstream>
#include <type_traits>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include "runtime/http_rules.hpp"

namespace millrace {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::uint64_t max_answer = 256 << 20;  // bytes

using TlsStream = beast::ssl_stream<beast::tcp_stream>;

constexpr const char* https = "https://";

// "localhost:8700", "[::1]:8700" or "https://localhost:8700" as host and port.
expected<std::pair<std::string, std::string>> split_address(std::string address) {
  if (address.starts_with(https)) address.erase(0, std::strlen(https));
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (colon == std::string::npos || host.empty() || (host.find(':') != std::string::npos && !bracketed)) {
    return fail("address '" + address + "' is not HOST:PORT: 127.0.0.1:8700, say");
  }
  return std::pair(host, address.substr(colon + 1));
}

HttpResponse to_response(http::response<http::string_body> message) {
  HttpResponse response;
  response.status = static_cast<int>(message.result_int());
  response.body = std::move(message.body());
  response.content_type = std::string(message[http::field::content_type]);
  for (const auto& field : message) {
    const auto name = field.name_string();
    response.headers[lower_case({name.data(), name.size()})] = std::string(field.value());
  }
  return response;
}

// Only asynchronous operations heed a deadline: each is started, then run to its end.
template <class Stream>
expected<HttpResponse> exchange(asio::io_context& context, Stream& stream, const HttpCall& call,
                                const tcp::resolver::results_type& endpoints,
                                const http::request<http::string_body>& request) {
  auto& socket = beast::get_lowest_layer(stream);
  socket.expires_after(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(call.timeout_s)));
  error_code code;
  const auto finish = [&](error_code result, auto&&...) { code = result; };
  const auto run = [&] {
    context.restart();
    context.run();
  };
  socket.async_connect(endpoints, finish);
  run();
  if (code == asio::error::connection_refused) return fail("no service at " + call.address + ": is it running?");
  if constexpr (std::is_same_v<Stream, TlsStream>) {
    if (!code) {
      stream.async_handshake(asio::ssl::stream_base::client, finish);
      run();
      if (code && code != beast::error::timeout) return fail("no TLS with " + call.address + ": " + code.message());
    }
  }

  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(max_answer);
  parser.skip(request.method() == http::verb::head);
  if (!code) {
    http::async_write(stream, request, finish);
    run();
    // A server that turns a request away may close before all of it is sent; its answer still counts.
    const bool sent = !code || code == asio::error::connection_reset || code == asio::error::broken_pipe;
    if (sent) {
      http::async_read(stream, buffer, parser, finish);
      run();
    }
  }
  if (code == beast::error::timeout) {
    std::ostringstream text;
    text << call.address << " did not answer within " << call.timeout_s << " s";
    return fail(text.str());
  }
  if (code) return fail("no whole answer from " + call.address + ": " + code.message());
  return to_response(parser.release());
}

// Who may be at the other end; its certificates are read once. SSL_CERT_FILE names others than the system's.
asio::ssl::context& client_tls() {
  static asio::ssl::context tls = [] {
    asio::ssl::context made(asio::ssl::context::tls_client);
    made.set_default_verify_paths();
    made.set_verify_mode(asio::ssl::verify_peer);
    return made;
  }();
  return tls;
}

}  // namespace

expected<HttpUrl> parse_url(const std::string& url) {
  std::smatch match;
  static const std::regex form("http(s?)://([^/]+?)(:[0-9]+)?(/.*)?");
  if (!std::regex_match(url, match, form)) return fail("expected http://HOST:PORT/PATH or https://...");
  const bool tls = match[1].length() > 0;
  const std::string port = match[3].matched ? match[3].str() : tls ? ":443" : ":80";
  return HttpUrl{(tls ? https : "") + match[2].str() + port, match[4].str()};
}

expected<HttpResponse> http_call(const HttpCall& call) {
  const auto address = split_address(call.address);
  if (!address) return tl::unexpected(address.error());
  asio::io_context context;
  error_code code;
  const auto endpoints = tcp::resolver(context).resolve(address->first, address->second, code);
  if (code) return fail("cannot find " + call.address + ": " + code.message());

  http::request<http::string_body> request(http::string_to_verb(call.method), call.target, 11, call.body);
  if (request.method() == http::verb::unknown) return fail("'" + call.method + "' is not an HTTP method");
  request.set(http::field::host, call.address.substr(call.address.starts_with(https) ? std::strlen(https) : 0));
  request.set(http::field::content_type, "application/json");
  if (!call.token.empty()) request.set(http::field::authorization, "Bearer " + call.token);
  for (const auto& [name, value] : call.headers) request.set(name, value);
  request.keep_alive(false);
  request.prepare_payload();

  if (!call.address.starts_with(https)) {
    beast::tcp_stream stream(context);
    return exchange(context, stream, call, endpoints, request);
  }
  TlsStream stream(context, client_tls());
  stream.set_verify_callback(asio::ssl::host_name_verification(address->first));
  SSL_set_tlsext_host_name(stream.native_handle(), address->first.c_str());
  return exchange(context, stream, call, endpoints, request);
}

}  // namespace millrace
