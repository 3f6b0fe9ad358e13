// Routes under /admin/v1: what the service does, and what it is rewarded for.
#include <cmath>

#include "actors/gateway/gateway.hpp"

namespace millrace {

namespace {

constexpr auto patience = std::chrono::seconds(30);

// For the request that nobody answered.
auto unavailable(const HttpExchange& exchange) {
  return [exchange](const caf::error& error) {
    exchange.reply(http_error(503, "no answer inside the service: " + caf::to_string(error), "server_error"));
  };
}

nlohmann::json number_or_null(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(); }

nlohmann::json to_json(const SpecInfo& info) {
  return {{"version", info.version}, {"name", info.name}, {"spec", info.document}};
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
      {"checkpoint", gate.checkpoint.name.empty() ? nlohmann::json()
                                                  : nlohmann::json{{"policy_version", gate.checkpoint.policy_version},
                                                                   {"step", gate.checkpoint.step},
                                                                   {"created", gate.checkpoint.created}}},
      {"last_step",
       {{"reward_mean", step.reward_mean},
        {"lag_mean", step.lag_mean},
        {"lag_max", step.lag_max},
        {"masked_share", step.masked_share_low + step.masked_share_high},
        {"explained_variance", number_or_null(step.explained_variance)},
        {"entropy", step.entropy},
        {"step_seconds", step.step_seconds},
        {"generated_tokens_per_second", step.generated_tokens_per_second},
        {"trained_tokens_per_second", step.trained_tokens_per_second}}}};
}

HttpResponse spec_response(const SpecInfo& info) {
  HttpResponse response = json_response(to_json(info));
  response.headers["etag"] = '"' + std::to_string(info.version) + '"';
  return response;
}

// A whole number of at most nine digits, or nothing.
std::optional<int> parse_number(std::string_view text) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string_view::npos) return {};
  return std::stoi(std::string(text));
}

// If-Match: "7", 7 or *; the version it names, 0 for any.
std::optional<std::uint64_t> parse_if_match(const HttpRequest& request) {
  const auto found = request.headers.find("if-match");
  if (found == request.headers.end() || found->second == "*") return 0;
  std::string_view text = found->second;
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  const std::optional<int> version = parse_number(text);
  if (!version || *version == 0) return {};
  return *version;
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

void get_reward_spec(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  self->request(setup.scorer, patience, spec_atom_v)
      .then([exchange](const SpecInfo& info) { exchange.reply(spec_response(info)); }, unavailable(exchange));
}

void put_reward_spec(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  const std::optional<std::uint64_t> if_match = parse_if_match(exchange.request);
  if (!if_match) {
    return exchange.reply(
        http_error(400, "If-Match must be a version such as \"7\"", "invalid_request_error", "If-Match"));
  }
  // {"spec": NAME or document}, or the document itself.
  nlohmann::json body = nlohmann::json::parse(exchange.request.body, nullptr, false);
  if (!body.is_object()) {
    return exchange.reply(
        http_error(400, "the body must be {\"spec\": NAME} or a reward spec", "invalid_request_error"));
  }
  const bool wrapped = body.contains("spec") && body.size() == 1;
  SpecChange change{wrapped ? body["spec"] : body, *if_match};
  self->request(setup.scorer, patience, spec_atom_v, std::move(change))
      .then(
          [exchange](const SpecReply& reply) {
            if (reply.error.empty()) return exchange.reply(spec_response(reply.info));
            exchange.reply(http_error(reply.fault == SpecFault::conflict ? 412 : 400, reply.error,
                                      reply.fault == SpecFault::conflict ? "conflict_error" : "invalid_request_error",
                                      "spec"));
          },
          unavailable(exchange));
}

}  // namespace millrace
