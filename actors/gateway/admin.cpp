// Routes under /admin/v1 that say what the service does.
#include "actors/gateway/gateway.hpp"
#include "runtime/step_json.hpp"

namespace millrace {

namespace {

nlohmann::json to_json(const CheckpointRow& row) {
  if (row.name.empty()) return nullptr;
  return {{"policy_version", row.policy_version}, {"step", row.step}, {"created", row.created}, {"reward", row.reward}};
}

nlohmann::json to_json(const GateStatus& gate, const SpecInfo& spec, const StepReport& step) {
  return {
      {"state", gate.state},
      {"problem", gate.problem.empty() ? nlohmann::json() : nlohmann::json(gate.problem)},
      {"policy_version", gate.policy_version},
      {"reward_spec", {{"name", spec.name}, {"version", spec.version}}},
      {"trajectories",
       {{"accepted", gate.counts.accepted},
        {"trained", gate.counts.trained},
        {"queued", gate.counts.queued},
        {"rejected", gate.counts.rejected}}},
      {"capacity", gate.capacity},
      {"sessions", gate.running},
      {"checkpoint", to_json(gate.checkpoint)},
      {"best_checkpoint", to_json(gate.best)},
      {"last_step", nlohmann::json(to_json(step))},
  };
}

}  // namespace

void get_status(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  self->request(setup.gatekeeper, patience, status_atom_v)
      .then(
          [self, scorer = setup.scorer, observer = setup.observer, exchange](const GateStatus& gate) {
            self->request(scorer, patience, spec_atom_v)
                .then(
                    [self, observer, exchange, gate](const SpecInfo& spec) {
                      self->request(observer, patience, status_atom_v)
                          .then(
                              [exchange, gate, spec](const StepReport& step) {
                                exchange.reply(json_response(to_json(gate, spec, step)));
                              },
                              unavailable(exchange));
                    },
                    unavailable(exchange));
          },
          unavailable(exchange));
}

void get_trajectories(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  TrajectoryQuery query;
  for (const auto& [name, value] : exchange.request.query) {
    if (name == "state") {
      query.state = value;
      if (value != "queued" && value != "trained" && value != "rejected") {
        return exchange.reply(
            http_error(400, "state must be queued, trained or rejected", "invalid_request_error", name));
      }
    } else if (name == "limit") {
      const std::optional<int> limit = parse_number(value);
      if (!limit || *limit < 1 || *limit > 10000) {
        return exchange.reply(http_error(400, "limit must be a number from 1 to 10000", "invalid_request_error", name));
      }
      query.limit = *limit;
    } else {
      return exchange.reply(
          http_error(400, "unknown parameter: known are state and limit", "invalid_request_error", name));
    }
  }
  self->request(setup.gatekeeper, patience, list_atom_v, query)
      .then(
          [exchange](const nlohmann::json& rows) {
            exchange.reply(json_response({{"trajectories", rows}}));
          },
          unavailable(exchange));
}

void get_trajectory(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  TrajectoryQuery query;
  const std::string& path = exchange.request.path;
  const std::optional<int> id = parse_number(std::string_view(path).substr(path.rfind('/') + 1));
  if (!id || *id == 0)
    return exchange.reply(http_error(400, "a trajectory's id is a number", "invalid_request_error", "id"));
  query.id = static_cast<TrajectoryId>(*id);
  self->request(setup.gatekeeper, patience, list_atom_v, query)
      .then(
          [exchange](const nlohmann::json& row) {
            exchange.reply(row.is_null() ? http_error(404, "no such trajectory", "not_found_error", "id")
                                         : json_response(row));
          },
          unavailable(exchange));
}

}  // namespace millrace
