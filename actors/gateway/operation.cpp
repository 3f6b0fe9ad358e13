// Routes under /admin/v1 with which an operator holds, saves and ends the service.
#include <chrono>

#include "actors/gateway/gateway.hpp"

namespace millrace {

namespace {

constexpr auto long_patience = std::chrono::seconds(600);  // a step has to end, gigabytes have to be written

void set_mode(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange, GateMode mode) {
  self->request(setup.gatekeeper, patience, mode_atom_v, mode)
      .then(
          [exchange](const GateStatus& status) {
            exchange.reply(json_response({{"state", status.state}}));
          },
          unavailable(exchange));
}

auto answer(const HttpExchange& exchange) {
  return [exchange](const CheckpointReply& reply) {
    if (reply.error.empty()) {
      return exchange.reply(json_response({{"checkpoint", reply.row.name},
                                           {"checkpoint_version", reply.row.policy_version},
                                           {"step", reply.row.step},
                                           {"policy_version", reply.policy_version}}));
    }
    switch (reply.fault) {
      case CheckpointFault::unknown_version:
        return exchange.reply(http_error(404, reply.error, "not_found_error", "version"));
      case CheckpointFault::refused: return exchange.reply(http_error(409, reply.error, "conflict_error"));
      case CheckpointFault::failed: return exchange.reply(http_error(503, reply.error, "server_error"));
    }
  };
}

}  // namespace

void post_pause(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  set_mode(self, setup, exchange, GateMode::paused);
}

void post_resume(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  set_mode(self, setup, exchange, GateMode::open);
}

void post_drain(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  self->request(setup.gatekeeper, patience, mode_atom_v, GateMode::draining)
      .then(
          [exchange, drain = setup.request_drain](const GateStatus& status) {
            exchange.reply(json_response({{"state", status.state}}));
            drain();
          },
          unavailable(exchange));
}

void post_checkpoint(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  self->request(setup.gatekeeper, long_patience, checkpoint_atom_v).then(answer(exchange), unavailable(exchange));
}

void post_rollback(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  const nlohmann::json body = nlohmann::json::parse(exchange.request.body, nullptr, false);
  if (!body.is_object() || body.size() != 1 || !body.contains("version") || !body["version"].is_number_unsigned()) {
    return exchange.reply(
        http_error(400, "the body must be {\"version\": NUMBER}", "invalid_request_error", "version"));
  }
  self->request(setup.gatekeeper, long_patience, rollback_atom_v, body["version"].get<Version>())
      .then(answer(exchange), unavailable(exchange));
}

}  // namespace millrace
