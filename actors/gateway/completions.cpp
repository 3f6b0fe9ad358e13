// Routes of the OpenAI API: models, chat and text completions. Served turns are sampled by the same generator as
// training turns; each request has an actor of its own (completion.hpp).
#include "actors/gateway/completion.hpp"
#include "runtime/live/canary.hpp"
#include "runtime/live/live_file.hpp"

namespace millrace {

namespace {

std::string header(const HttpRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

// x-millrace-no-training keeps a conversation out of training: nothing of it is kept. A recipe that compares the
// answers of a group has no use for single ones.
bool may_remember(const Settings& settings, const HttpRequest& request) {
  if (settings.recipe.grouping.size > 1) return false;
  const std::string wish = header(request, "x-millrace-no-training");
  return wish.empty() || wish == "0" || wish == "false";
}

Answerer answerer_of(const Settings& settings, bool reference, const std::string& client) {
  if (reference) return Answerer::reference;
  return meets_canary(settings.live, client.empty() ? random_name("") : client) ? Answerer::newest : Answerer::good;
}

void serve(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange, ParsedRequest parsed) {
  if (!parsed) {
    const BadRequest& bad = parsed.error();
    return exchange.reply(http_error(400, bad.message, "invalid_request_error", bad.param));
  }
  CompletionSetup asking{setup.generator,
                         setup.live,
                         self->address(),
                         session_key_of(exchange.request),
                         exchange.request.sender.client,
                         !parsed->reference && may_remember(setup.settings, exchange.request),
                         Answerer::newest,
                         setup.redaction,
                         exchange};
  if (asking.client.empty()) asking.client = header(exchange.request, "x-millrace-client");
  if (asking.client.empty()) asking.client = parsed->user;
  asking.by = answerer_of(setup.settings, parsed->reference, asking.client);
  const std::string id = (parsed->chat ? "chatcmpl-" : "cmpl-") + std::to_string(self->state.next_completion++);
  const std::string model = parsed->reference ? reference_model : setup.model->name;
  auto work = std::make_shared<Completion>(std::move(*parsed), setup.model->tokenizer, model, id,
                                           asking.remember ? random_name("int-") : "");
  const CompletionActor actor =
      self->spawn(completion, std::move(work), std::make_shared<const CompletionSetup>(std::move(asking)));
  self->send(actor, start_atom_v);
  if (!exchange.request.caller) return;
  exchange.request.caller->when_gone([address = actor.address()] {
    if (const auto serving = caf::actor_cast<caf::actor>(address)) caf::anon_send(serving, gone_atom_v);
  });
}

}  // namespace

void get_models(GatewaySelf, const GatewaySetup& setup, const HttpExchange& exchange) {
  auto models = nlohmann::json::array();
  for (const std::string& name : {setup.model->name, std::string(reference_model)}) {
    models.push_back({{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "millrace"}});
  }
  exchange.reply(json_response({{"object", "list"}, {"data", models}}));
}

void post_chat(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  const auto body = nlohmann::ordered_json::parse(exchange.request.body, nullptr, false);
  serve(self, setup, exchange, parse_chat_request(body, *setup.model->tokenizer, setup.settings.model.max_context));
}

void post_text(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  const auto body = nlohmann::ordered_json::parse(exchange.request.body, nullptr, false);
  serve(self, setup, exchange, parse_text_request(body, *setup.model->tokenizer));
}

}  // namespace millrace
