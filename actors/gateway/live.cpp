// Routes of live learning: rewards for served answers, and sessions as in AReaL's online mode.
#include <cmath>

#include "actors/gateway/gateway.hpp"
#include "runtime/lower_case.hpp"

namespace millrace {

namespace {

void answer(const HttpExchange& exchange, const LiveAnswer& answer) {
  if (answer.message.empty()) return exchange.reply(json_response(answer.body, answer.status));
  const char* type = answer.status == 401   ? "authentication_error"
                     : answer.status == 404 ? "not_found_error"
                     : answer.status >= 500 ? "server_error"
                                            : "invalid_request_error";
  HttpResponse response = http_error(answer.status, answer.message, type, answer.param);
  if (answer.status == 429) response.headers["Retry-After"] = "5";
  exchange.reply(std::move(response));
}

template <class... Message>
void ask(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange, Message&&... message) {
  self->request(setup.live, std::chrono::seconds(30), std::forward<Message>(message)...)
      .then([exchange](const LiveAnswer& given) { answer(exchange, given); },
            [exchange](const caf::error& error) {
              exchange.reply(http_error(503, "no answer inside the service: " + caf::to_string(error), "server_error"));
            });
}

// {"interaction_id", "reward" or "score", "final"?}; `id_needed`: else it may be missing or null.
std::optional<Feedback> read_feedback(const GatewaySetup& setup, const HttpExchange& exchange, bool id_needed) {
  const nlohmann::json body = nlohmann::json::parse(exchange.request.body, nullptr, false);
  const auto refuse = [&](const char* message, const char* param) -> std::optional<Feedback> {
    exchange.reply(http_error(400, message, "invalid_request_error", param));
    return {};
  };
  if (!body.is_object()) return refuse("the body must be a JSON object", "");
  Feedback feedback;
  const nlohmann::json id = body.value("interaction_id", nlohmann::json());
  if (id.is_string()) feedback.interaction_id = id;
  if (!(id.is_string() ? !feedback.interaction_id.empty() : id.is_null() && !id_needed)) {
    return refuse("must be the x-millrace-interaction-id of an answer", "interaction_id");
  }
  if (body.contains("reward") == body.contains("score")) return refuse("give one of reward and score", "reward");
  const nlohmann::json reward = body.contains("reward") ? body["reward"] : body["score"];
  if (!reward.is_number() || !(std::abs(reward.get<double>()) <= setup.settings.live.max_reward)) {
    return refuse("must be a number not larger than live.max_reward, of either sign", "reward");
  }
  feedback.reward = reward;
  const nlohmann::json final = body.value("final", nlohmann::json(true));
  if (!final.is_boolean()) return refuse("must be true or false", "final");
  feedback.final = final;
  return feedback;
}

}  // namespace

std::string session_key_of(const HttpRequest& request) {
  for (const char* name : {"x-api-key", "authorization"}) {
    const auto found = request.headers.find(name);
    if (found == request.headers.end()) continue;
    const std::size_t at = found->second.find(session_key_prefix);
    if (at == 0 || (at == 7 && lower_case(found->second.substr(0, 7)) == "bearer ")) return found->second.substr(at);
  }
  return "";
}

void post_feedback(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  if (const auto feedback = read_feedback(setup, exchange, true))
    ask(self, setup, exchange, feedback_atom_v, *feedback);
}

void post_start_session(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  const nlohmann::json body = nlohmann::json::parse(exchange.request.body, nullptr, false);
  SessionCall call;
  if (setup.settings.recipe.grouping.size > 1) {
    return exchange.reply(http_error(409,
                                     "the recipe " + std::string(setup.settings.recipe.name) +
                                         " compares answers in groups: learning from live traffic needs single ones",
                                     "invalid_request_error"));
  }
  if (!body.is_object())
    return exchange.reply(http_error(400, "the body must be a JSON object", "invalid_request_error"));
  const nlohmann::json task = body.value("task_id", nlohmann::json(""));
  const nlohmann::json key = body.value("api_key", nlohmann::json());
  if (!task.is_string()) return exchange.reply(http_error(400, "must be a text", "invalid_request_error", "task_id"));
  if (!key.is_null() && !(key.is_string() && key.get<std::string>().starts_with(session_key_prefix))) {
    return exchange.reply(http_error(400, "must begin with sk-sess-", "invalid_request_error", "api_key"));
  }
  call.task = task;
  if (key.is_string()) call.key = key;
  ask(self, setup, exchange, session_atom_v, call);
}

void post_set_reward(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  const auto feedback = read_feedback(setup, exchange, false);
  if (!feedback) return;
  SessionCall call;
  call.kind = SessionCall::Kind::reward;
  call.key = session_key_of(exchange.request);
  call.feedback = *feedback;
  ask(self, setup, exchange, session_atom_v, call);
}

void post_end_session(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  SessionCall call;
  call.kind = SessionCall::Kind::end;
  call.key = session_key_of(exchange.request);
  ask(self, setup, exchange, session_atom_v, call);
}

// DELETE /admin/v1/clients?client=NAME
void delete_client(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  const auto client = exchange.request.query.find("client");
  if (client == exchange.request.query.end() || client->second.empty()) {
    return exchange.reply(http_error(400, "name the client: ?client=NAME", "invalid_request_error", "client"));
  }
  ask(self, setup, exchange, forget_atom_v, client->second);
}

}  // namespace millrace
