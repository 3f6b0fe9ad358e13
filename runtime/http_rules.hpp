#pragma once
// What a request must be before a handler sees it: addressed to this service, sent by someone who may, and readable.
// Pure functions on header values; http_server.cpp moves the bytes.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/expected.hpp"
#include "runtime/callers.hpp"
#include "runtime/http_server.hpp"
#include "runtime/lower_case.hpp"

namespace millrace {

// Who may call a server at this address.
struct HttpRules {
  bool loopback = true;
  std::string address;          // as it is bound
  std::vector<Caller> callers;  // empty: no token is asked for
};

// What of a request decides whether it is let in; empty where the header is missing.
struct HttpOrigin {
  std::string_view path;
  std::string_view host;
  std::string_view origin;
  std::string_view authorization;
  std::string_view method = "GET";
};

// The answer that turns the request away, none if it may pass:
// 421 for a foreign name on loopback (a web page that rebinds its name to 127.0.0.1), 403 for a page of another origin
// there, 401 without a token, 403 with one whose role is not enough. Otherwise `sender` becomes who it is from.
std::optional<HttpResponse> refusal(const HttpRules& rules, const HttpOrigin& request, HttpSender& sender);

bool is_probe(std::string_view path);  // open to everybody, and served when all other connections are taken

// "/a/b?x=1&y=%20" as path and decoded query. Errors: not a path, a broken percent code.
expected<void> split_target(std::string_view target, HttpRequest& request);

// A header's value without what could begin another header.
std::string header_safe(std::string_view value);

}  // namespace millrace
