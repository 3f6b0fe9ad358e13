#include "actors/gateway/gateway.hpp"

#include <chrono>
#include <string_view>

#include "actors/exceptions.hpp"
#include "actors/mailbox.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

struct Entry {
  const char* method;
  const char* path;  // a trailing /* stands for one more segment
  Route route;
};

void get_livez(GatewaySelf, const GatewaySetup&, const HttpExchange& exchange) {
  exchange.reply({200, "ok\n", "text/plain", {}});
}

void get_metrics(GatewaySelf, const GatewaySetup& setup, const HttpExchange& exchange) {
  exchange.reply({200, setup.metrics->text(), "text/plain; version=0.0.4; charset=utf-8", {}});
}

// Ready when every actor on the way of a request answers; a hung one makes it time out.
void get_readyz(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  self->request(setup.gatekeeper, std::chrono::seconds(2), status_atom_v)
      .then(
          [exchange, activity = setup.activity](const GateStatus& status) {
            if (activity->roles_missing > 0) {
              return exchange.reply({503, "a part of the service is being started again\n", "text/plain", {}});
            }
            if (status.state == name_of(GateMode::draining))
              return exchange.reply({503, "draining\n", "text/plain", {}});
            exchange.reply({200, "ready\n", "text/plain", {}});
          },
          [exchange](const caf::error&) {
            exchange.reply({503, "the gatekeeper does not answer\n", "text/plain", {}});
          });
}

constexpr Entry routes[] = {
    {"GET", "/livez", get_livez},
    {"GET", "/readyz", get_readyz},
    {"GET", "/metrics", get_metrics},
    {"GET", "/v1/models", get_models},
    {"POST", "/v1/chat/completions", post_chat},
    {"POST", "/chat/completions", post_chat},  // as AReaL's clients call it
    {"POST", "/v1/completions", post_text},
    {"POST", "/v1/feedback", post_feedback},
    {"POST", "/rl/start_session", post_start_session},
    {"POST", "/rl/set_reward", post_set_reward},
    {"POST", "/rl/end_session", post_end_session},
    {"DELETE", "/admin/v1/clients", delete_client},
    {"GET", "/admin/v1/status", get_status},
    {"GET", "/admin/v1/trajectories", get_trajectories},
    {"GET", "/admin/v1/trajectories/*", get_trajectory},
    {"GET", "/admin/v1/reward-spec", get_reward_spec},
    {"PUT", "/admin/v1/reward-spec", put_reward_spec},
    {"POST", "/admin/v1/reward-spec/dry-run", post_dry_run},
    {"POST", "/admin/v1/reward-spec/rollback", post_spec_rollback},
    {"GET", "/admin/v1/reward-spec/history", get_spec_history},
    {"GET", "/admin/v1/events", get_events},
    {"GET", "/", get_page},
    {"GET", "/page/*", get_page},
    {"POST", "/admin/v1/pause", post_pause},
    {"POST", "/admin/v1/resume", post_resume},
    {"POST", "/admin/v1/drain", post_drain},
    {"POST", "/admin/v1/checkpoint", post_checkpoint},
    {"POST", "/admin/v1/rollback", post_rollback},
};

bool fits(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with("/*")) return pattern == path;
  pattern.remove_suffix(1);
  return path.starts_with(pattern) && path.size() > pattern.size() &&
         path.find('/', pattern.size()) == std::string_view::npos;
}

// What changes the service under /admin is told to the log, with who did it; a dry run changes nothing.
void audit(const HttpRequest& request, int status) {
  if (request.method == "GET" || !request.path.starts_with("/admin/") || request.path.ends_with("/dry-run")) return;
  log_info("audit", request.sender.name + " " + request.method + " " + request.path + " -> " + std::to_string(status));
}

// The reply, with its count and duration under the route's own name, and its audit line.
HttpReply measured(const GatewaySetup& setup, const HttpExchange& exchange, const char* route) {
  HttpRequest head = exchange.request;
  head.body.clear();
  return [metrics = setup.metrics, reply = exchange.reply, head = std::move(head), route,
          start = std::chrono::steady_clock::now()](HttpResponse response) {
    audit(head, response.status);
    metrics->http(route, head.method.c_str(), response.status,
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    reply(std::move(response));
  };
}

void dispatch(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  const Entry* same_path = nullptr;
  for (const Entry& entry : routes) {
    if (!fits(entry.path, exchange.request.path)) continue;
    same_path = &entry;
    if (exchange.request.method == entry.method) {
      return entry.route(self, setup, {exchange.request, measured(setup, exchange, entry.path)});
    }
  }
  const HttpReply reply = measured(setup, exchange, same_path ? same_path->path : "other");
  if (same_path) {
    reply(
        http_error(405, exchange.request.path + " does not take " + exchange.request.method, "invalid_request_error"));
  } else {
    reply(http_error(404, "there is nothing at " + exchange.request.path, "not_found_error"));
  }
}

}  // namespace

const char* GatewayState::name = "gateway";

HttpResponse json_response(const nlohmann::json& body, int status) {
  // Text of a model need not be valid UTF-8; a reply has to be.
  return {status, body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), "application/json", {}};
}

std::optional<int> parse_number(std::string_view text) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string_view::npos) return {};
  return std::stoi(std::string(text));
}

GatewayActor::behavior_type gateway(GatewaySelf self, std::shared_ptr<const GatewaySetup> setup) {
  die_of_exceptions(self, GatewayState::name);
  return {[self, setup](http_atom, const HttpExchange& exchange) {
    report_mailbox(self, *setup->metrics);
    dispatch(self, *setup, exchange);
  }};
}

}  // namespace millrace
