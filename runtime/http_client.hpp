#pragma once
// A blocking HTTP call, for the program's own commands and the tests.
#include <string>

#include "config/expected.hpp"
#include "runtime/http_server.hpp"

namespace millrace {

struct HttpCall {
  std::string address = "127.0.0.1:8700";  // with https:// before it: TLS, the certificate is verified
  std::string method = "GET";
  std::string target = "/";
  std::string body;
  std::string token;  // sent as bearer when not empty
  std::map<std::string, std::string> headers;
  double timeout_s = 60;
};

struct HttpUrl {
  std::string address;  // as in HttpCall
  std::string path;     // "" or "/..."
};

// http://HOST[:PORT][/PATH] or https://...
expected<HttpUrl> parse_url(const std::string& url);

// Errors: connection refused ("no service at ...: is it running?"), timeout, a broken answer. Any status is an answer.
expected<HttpResponse> http_call(const HttpCall& call);

}  // namespace millrace
