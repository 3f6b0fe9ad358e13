#pragma once
// HTTP transport: one address, bounded bodies, headers, connections and time. A handler answers when it can, from any
// thread; a request that waits never delays another.
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "config/expected.hpp"
#include "config/settings.hpp"
#include "runtime/http_stream.hpp"

namespace millrace {

struct HttpSender {
  std::string name = "loopback";  // of the token it came with
  std::string client;             // where the token is one client's, who that is
};

struct HttpRequest {
  std::string method;
  std::string path;                            // without the query
  std::map<std::string, std::string> query;    // decoded
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::shared_ptr<HttpCaller> caller;  // set by the server
  HttpSender sender;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::map<std::string, std::string> headers;
  std::shared_ptr<HttpStream> stream = {};  // when set, it is the body: sent as it is written, for as long as it takes
};

// Called once for each request; the reply function may be called once, from any thread. Dropping it answers 500.
using HttpReply = std::function<void(HttpResponse)>;
using HttpHandler = std::function<void(HttpRequest, HttpReply)>;

class HttpServer {
 public:
  // Listens at once. Errors: "127.0.0.1:8700 is in use: ...", address not of this machine, token file missing or empty,
  // no token file off loopback, a certificate that cannot be used. With a token every request but GET /livez and
  // /readyz needs `Authorization: Bearer`.
  static expected<HttpServer> listen(const HttpSettings& settings, HttpHandler handler);
  HttpServer(HttpServer&&) noexcept;
  HttpServer& operator=(HttpServer&&) noexcept;
  ~HttpServer();  // stops accepting, lets written answers out, closes within a second

  int port() const;

 private:
  struct State;
  explicit HttpServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// {"error": {"message", "type", "param"}}
HttpResponse http_error(int status, const std::string& message, const std::string& type, const std::string& param = "");

}  // namespace millrace
