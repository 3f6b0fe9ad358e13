// Routes under /admin/v1/reward-spec: what is rewarded, and how that changes while the service runs.
#include <atomic>
#include <cmath>

#include "actors/gateway/gateway.hpp"
#include "config/strict_json.hpp"
#include "runtime/dry_run.hpp"

namespace millrace {

namespace {

using nlohmann::json;

constexpr double longest_wait = 30 * 86400;  // seconds
constexpr std::size_t longest_why = 1000;

HttpResponse bad(const std::string& message, const std::string& param = "") {
  return http_error(400, message, "invalid_request_error", param);
}

HttpResponse spec_response(const SpecInfo& info, const std::string& directory) {
  json body = {{"version", info.version},
               {"name", info.name},
               {"spec", info.document},
               {"available", list_reward_specs(directory)}};
  if (!info.pending.is_null()) body["pending"] = info.pending;
  HttpResponse response = json_response(body);
  response.headers["etag"] = '"' + std::to_string(info.version) + '"';
  return response;
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

// A body as an object whose keys are all known; an empty one counts as {}.
expected<json> parse_body(const HttpRequest& request, const std::vector<std::string>& known) {
  if (request.body.empty()) return json::object();
  auto body = parse_json(request.body, "body");
  if (!body) return body;
  if (!body->is_object()) return fail("the body is " + shown(*body) + ": expected an object");
  for (const auto& [key, value] : body->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) return fail("unknown key \"" + key + "\"");
  }
  return body;
}

expected<double> seconds_of(const json& body, const char* key) {
  const auto found = body.find(key);
  if (found == body.end()) return 0;
  if (!found->is_number() || !(found->get<double>() >= 0 && found->get<double>() <= longest_wait)) {
    return fail(std::string("\"") + key + "\" is " + shown(*found) + ": expected seconds, from 0 to 2592000");
  }
  return found->get<double>();
}

expected<std::string> why_of(const json& body) {
  const auto found = body.find("why");
  if (found == body.end()) return std::string();
  if (!found->is_string() || found->get_ref<const std::string&>().size() > longest_why) {
    return fail("\"why\" must be a text of at most 1000 bytes");
  }
  return found->get<std::string>();
}

// {"spec": NAME or document, "why", "in_flight", "after_s", "ramp_s"}, or a spec document itself.
expected<SpecChange> parse_change(const HttpRequest& request) {
  SpecChange change;
  auto body = parse_json(request.body, "body");
  if (!body) return tl::unexpected(body.error());
  if (!body->is_object()) return fail("the body must be {\"spec\": NAME} or a reward spec");
  change.who = request.sender.name;
  if (!body->contains("spec")) {
    change.spec = std::move(*body);
    return change;
  }
  body = parse_body(request, {"spec", "why", "in_flight", "after_s", "ramp_s"});
  if (!body) return tl::unexpected(body.error());
  change.spec = (*body)["spec"];
  const auto why = why_of(*body);
  if (!why) return tl::unexpected(why.error());
  const auto after = seconds_of(*body, "after_s");
  if (!after) return tl::unexpected(after.error());
  const auto ramp = seconds_of(*body, "ramp_s");
  if (!ramp) return tl::unexpected(ramp.error());
  if (const auto choice = body->find("in_flight"); choice != body->end()) {
    const auto in_flight = in_flight_of(choice->is_string() ? choice->get<std::string>() : shown(*choice));
    if (!in_flight) return tl::unexpected(in_flight.error());
    change.in_flight = *in_flight;
  }
  change.why = *why;
  change.after_s = *after;
  change.ramp_s = *ramp;
  return change;
}

void send_change(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange, SpecChange change) {
  self->request(setup.scorer, patience, spec_atom_v, std::move(change))
      .then(
          [exchange, directory = setup.settings.reward.directory](const SpecReply& reply) {
            if (reply.error.empty()) return exchange.reply(spec_response(reply.info, directory));
            switch (reply.fault) {
              case SpecFault::invalid: return exchange.reply(bad(reply.error, "spec"));
              case SpecFault::conflict:
                return exchange.reply(http_error(412, reply.error, "conflict_error", "If-Match"));
              case SpecFault::failed: return exchange.reply(http_error(503, reply.error, "server_error"));
            }
          },
          unavailable(exchange));
}

// Has all answers scored at once; whoever brings the last score makes the reply.
void try_out(Asker& asker, const SpecPtr& spec, std::vector<PastAnswer> given, const HttpReply& reply) {
  struct Trial {
    std::vector<PastAnswer> answers;
    std::vector<expected<Score>> scores;
    std::atomic<std::size_t> open;
  };
  const std::size_t count = given.size();
  if (count == 0) return reply(json_response(dry_run(spec->name(), {}, {})));
  const auto trial = std::make_shared<Trial>();
  trial->answers = std::move(given);
  trial->scores.resize(count);
  trial->open = count;
  for (std::size_t i = 0; i < count; ++i) {
    const PastAnswer& answer = trial->answers[i];
    asker.ask(spec, {answer.answer, answer.expected_answer, answer.task},
              [trial, i, reply, name = spec->name()](const expected<Score>& score) {
                trial->scores[i] = score;
                if (--trial->open == 0) reply(json_response(dry_run(name, trial->answers, trial->scores)));
              });
  }
}

}  // namespace

void get_reward_spec(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  self->request(setup.scorer, patience, spec_atom_v)
      .then([exchange, directory = setup.settings.reward.directory](
                const SpecInfo& info) { exchange.reply(spec_response(info, directory)); },
            unavailable(exchange));
}

void put_reward_spec(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  const std::optional<std::uint64_t> if_match = parse_if_match(exchange.request);
  if (!if_match) return exchange.reply(bad("If-Match must be a version such as \"7\"", "If-Match"));
  auto change = parse_change(exchange.request);
  if (!change) return exchange.reply(bad(change.error().message));
  change->if_match = *if_match;
  send_change(self, setup, exchange, std::move(*change));
}

// {"version": N} or nothing: the spec of that version again, or of the one before the present.
void post_spec_rollback(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  const auto body = parse_body(exchange.request, {"version", "why"});
  if (!body) return exchange.reply(bad(body.error().message));
  const auto why = why_of(*body);
  if (!why) return exchange.reply(bad(why.error().message, "why"));
  SpecChange change;
  change.restore = 0;
  if (const auto version = body->find("version"); version != body->end()) {
    if (!version->is_number_unsigned() || *version == 0) {
      return exchange.reply(bad("\"version\" must be the number of an earlier reward spec", "version"));
    }
    change.restore = version->get<std::uint64_t>();
  }
  change.who = exchange.request.sender.name;
  change.why = *why;
  send_change(self, setup, exchange, std::move(change));
}

void get_spec_history(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  self->request(setup.scorer, patience, history_atom_v)
      .then(
          [exchange](const json& entries) {
            exchange.reply(json_response({{"history", entries}}));
          },
          unavailable(exchange));
}

// {"spec": NAME or document, "limit"}: nothing changes. Every answer may cost a call where remote scorers are asked.
void post_dry_run(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  const auto body = parse_body(exchange.request, {"spec", "limit"});
  if (!body) return exchange.reply(bad(body.error().message));
  if (!body->contains("spec")) return exchange.reply(bad("\"spec\" is missing: a name or a reward spec", "spec"));
  const json& given = body->at("spec");
  auto spec = given.is_string() ? load_reward_spec(setup.settings.reward.directory, given.get<std::string>())
                                : RewardSpec::parse(given);
  if (!spec) return exchange.reply(bad(spec.error().message, "spec"));
  TrajectoryQuery query;
  query.limit = spec->remote() ? 32 : 200;
  if (const auto limit = body->find("limit"); limit != body->end()) {
    if (!limit->is_number_unsigned() || *limit < 1 || *limit > 1000) {
      return exchange.reply(bad("\"limit\" must be a number from 1 to 1000", "limit"));
    }
    query.limit = limit->get<int>();
  }
  self->request(setup.gatekeeper, patience, list_atom_v, query)
      .then(
          [exchange, asker = setup.asker,
           spec = std::make_shared<const RewardSpec>(std::move(*spec))](const json& rows) {
            std::vector<PastAnswer> answers;
            for (const json& row : rows) {
              if (!row.contains("reward") || !row["reward"].is_number()) continue;
              answers.push_back({row["id"], row["answer"], row["expected"], row["task"], row["reward"]});
            }
            try_out(*asker, spec, std::move(answers), exchange.reply);
          },
          unavailable(exchange));
}

}  // namespace millrace
