#include "runtime/http_rules.hpp"

#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

namespace millrace {
namespace {

// "[::1]:8700" -> "::1", "LOCALHOST:8700" -> "localhost"
std::string host_name(std::string_view authority) {
  if (authority.starts_with('[')) return lower_case(authority.substr(1, authority.find(']') - 1));
  return lower_case(authority.substr(0, authority.find(':')));
}

// Clients of /rl sessions have no other key than their session's; these routes let nobody in whose key is unknown.
bool is_session_route(std::string_view path) {
  return path == "/v1/chat/completions" || path == "/chat/completions" || path == "/v1/completions" ||
         path == "/rl/set_reward" || path == "/rl/end_session";
}

bool bears_session_key(const HttpOrigin& request) {
  constexpr std::string_view start = "bearer sk-sess-";
  return lower_case(request.authorization.substr(0, start.size())) == start;
}

// The operator page asks for the token itself, its files are no secret.
bool is_page(const HttpOrigin& request) {
  return request.method == "GET" && (request.path == "/" || request.path.starts_with("/page/"));
}

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

expected<std::string> decode(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
    const auto low = high ? hex_digit(text[i + 2]) : std::nullopt;
    if (!low) return fail("the query has a '%' without two hexadecimal digits");
    result += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  return result;
}

}  // namespace

bool is_probe(std::string_view path) { return path == "/livez" || path == "/readyz"; }

std::optional<HttpResponse> refusal(const HttpRules& rules, const HttpOrigin& request, HttpSender& sender) {
  sender.name = rules.loopback ? "loopback" : "anybody";
  if (rules.loopback && !request.host.empty()) {
    const std::string name = host_name(request.host);
    if (name != "localhost" && name != "127.0.0.1" && name != "::1" && name != lower_case(rules.address)) {
      return http_error(421, "Host must be localhost or the address the service listens on", "invalid_request_error",
                        "Host");
    }
    const std::string host(request.host);
    if (!request.origin.empty() && request.origin != "http://" + host && request.origin != "https://" + host) {
      return http_error(403, "a page of another origin may not call this service", "permission_error", "Origin");
    }
  }
  const bool open =
      is_probe(request.path) || is_page(request) || (is_session_route(request.path) && bears_session_key(request));
  if (rules.callers.empty() || open) return std::nullopt;
  const Caller* caller = find_caller(rules.callers, request.authorization);
  if (!caller) {
    HttpResponse response = http_error(401, "send the service's token as 'Authorization: Bearer TOKEN'",
                                       "authentication_error", "Authorization");
    response.headers["WWW-Authenticate"] = "Bearer realm=\"millrace\"";
    return response;
  }
  sender.name = caller->name;
  if (caller->role == Role::client) sender.client = caller->name;
  if (!may(caller->role, request.method, request.path)) {
    return http_error(403, std::string("a token of the role ") + name_of(caller->role) + " may not make this call",
                      "permission_error", "Authorization");
  }
  return std::nullopt;
}

expected<void> split_target(std::string_view target, HttpRequest& request) {
  if (!target.starts_with('/')) return fail("the request target must begin with '/'");
  const std::size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  std::string_view rest = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view field = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(field.size() + 1, rest.size()));
    const std::size_t equals = std::min(field.find('='), field.size());
    const auto name = decode(field.substr(0, equals));
    const auto value = decode(field.substr(std::min(equals + 1, field.size())));
    if (!name) return tl::unexpected(name.error());
    if (!value) return tl::unexpected(value.error());
    if (!name->empty()) request.query[*name] = *value;
  }
  return {};
}

std::string header_safe(std::string_view value) {
  std::string safe(value);
  std::replace_if(
      safe.begin(), safe.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7F; }, ' ');
  return safe;
}

HttpResponse http_error(int status, const std::string& message, const std::string& type, const std::string& param) {
  HttpResponse response;
  response.status = status;
  const nlohmann::ordered_json body = {{"error", {{"message", message}, {"type", type}, {"param", param}}}};
  response.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return response;
}

}  // namespace millrace
