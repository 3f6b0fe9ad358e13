#pragma once
// The gateway: one table of routes, each a function that turns a request into messages and, later, their answers into
// JSON. No route waits; the reply is sent when the last answer is there.
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "actors/protocol/interfaces.hpp"
#include "runtime/activity.hpp"
#include "runtime/event_hub.hpp"
#include "runtime/live/redaction.hpp"
#include "runtime/rewards/asker.hpp"

namespace millrace {

// Whom the routes may ask.
struct GatewaySetup {
  GatekeeperActor gatekeeper;
  GeneratorActor generator;
  ScorerActor scorer;
  ObserverActor observer;
  LiveActor live;
  std::shared_ptr<const Model> model;
  Settings settings;
  Metrics* metrics = nullptr;
  EventHub* events = nullptr;
  std::function<void()> request_drain;
  const Activity* activity = nullptr;
  Asker* asker = nullptr;
  std::shared_ptr<const Redaction> redaction;
};

struct GatewayState {
  std::uint64_t next_completion = 1;
  static const char* name;
};

using GatewaySelf = GatewayActor::stateful_pointer<GatewayState>;

GatewayActor::behavior_type gateway(GatewaySelf self, std::shared_ptr<const GatewaySetup> setup);

// Routes, by file. Each answers through the exchange's reply exactly once.
using Route = void (*)(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);

void get_status(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);  // admin.cpp
void get_trajectories(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void get_trajectory(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void get_reward_spec(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);  // preferences.cpp
void put_reward_spec(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void post_dry_run(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void post_spec_rollback(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void get_spec_history(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void get_page(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);  // page.cpp
void get_events(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void post_pause(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);  // operation.cpp
void post_resume(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void post_drain(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void post_checkpoint(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void post_rollback(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void get_models(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);  // completions.cpp
void post_chat(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void post_text(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);

void post_feedback(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);  // live.cpp
void post_start_session(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void post_set_reward(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void post_end_session(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);
void delete_client(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange);

// "Authorization: Bearer sk-sess-..." or "x-api-key: sk-sess-..."; empty where there is none.
std::string session_key_of(const HttpRequest& request);
HttpResponse json_response(const nlohmann::json& body, int status = 200);

constexpr auto patience = std::chrono::seconds(30);  // of a route with the actors it asks

// For the request that nobody inside has answered.
inline auto unavailable(const HttpExchange& exchange) {
  return [exchange](const caf::error& error) {
    exchange.reply(http_error(503, "no answer inside the service: " + caf::to_string(error), "server_error"));
  };
}

// A whole number of at most nine digits, or nothing.
std::optional<int> parse_number(std::string_view text);

}  // namespace millrace
