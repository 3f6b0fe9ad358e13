// The OpenAI API, as far as it goes today: models and chat completions. Served turns are sampled by the same generator
// as training turns and are not trained.
#include <algorithm>
#include <chrono>

#include "actors/gateway/gateway.hpp"
#include "models/text/chat.hpp"

namespace millrace {

namespace {

struct ChatRequest {
  std::vector<Message> messages;
  Sampling sampling;
  bool logprobs = false;
  bool return_token_ids = false;
};

struct BadRequest {
  std::string message;
  std::string param;
};

// Reads a number in [low, high] if it is there; false: it is there and wrong.
template <class T>
bool read_number(const nlohmann::json& body, const char* key, double low, double high, T& into) {
  const auto found = body.find(key);
  if (found == body.end() || found->is_null()) return true;
  if (!found->is_number()) return false;
  const double value = found->get<double>();
  if (!(value >= low && value <= high)) return false;
  if constexpr (std::is_integral_v<T>) {
    if (!found->is_number_integer()) return false;
  }
  into = found->get<T>();
  return true;
}

bool read_flag(const nlohmann::json& body, const char* key, bool& into) {
  const auto found = body.find(key);
  if (found == body.end() || found->is_null()) return true;
  if (!found->is_boolean()) return false;
  into = found->get<bool>();
  return true;
}

bool read_stop(const nlohmann::json& body, std::vector<std::string>& stop) {
  const auto found = body.find("stop");
  if (found == body.end() || found->is_null()) return true;
  if (found->is_string()) {
    stop = {found->get<std::string>()};
  } else if (found->is_array() && found->size() <= 4) {
    for (const auto& text : *found) {
      if (!text.is_string()) return false;
      stop.push_back(text.get<std::string>());
    }
  } else {
    return false;
  }
  return std::none_of(stop.begin(), stop.end(), [](const std::string& text) { return text.empty(); });
}

bool read_messages(const nlohmann::json& body, std::vector<Message>& messages) {
  const auto found = body.find("messages");
  if (found == body.end() || !found->is_array() || found->empty()) return false;
  for (const auto& message : *found) {
    if (!message.is_object() || !message.contains("role") || !message.contains("content")) return false;
    if (!message["role"].is_string() || !message["content"].is_string()) return false;
    const std::string role = message["role"];
    if (role != "system" && role != "user" && role != "assistant" && role != "tool") return false;
    messages.push_back({role, message["content"]});
  }
  return true;
}

std::optional<BadRequest> parse_chat(const nlohmann::json& body, int max_context, ChatRequest& request) {
  constexpr double any = 1e18;
  Sampling& sampling = request.sampling;
  sampling.max_tokens = max_context;
  sampling.seed = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  bool stream = false;
  int n = 1;
  if (!body.is_object()) return BadRequest{"the body must be a JSON object", ""};
  if (!read_messages(body, request.messages)) {
    return BadRequest{"messages must be a non-empty list of {role: system|user|assistant|tool, content: text}",
                      "messages"};
  }
  if (!read_number(body, "max_tokens", 1, any, sampling.max_tokens))
    return BadRequest{"must be an integer >= 1", "max_tokens"};
  if (!read_number(body, "max_completion_tokens", 1, any, sampling.max_tokens)) {
    return BadRequest{"must be an integer >= 1", "max_completion_tokens"};
  }
  if (!read_number(body, "temperature", 0, 2, sampling.temperature))
    return BadRequest{"must be from 0 to 2", "temperature"};
  if (!read_number(body, "top_p", 1e-6, 1, sampling.top_p)) return BadRequest{"must be above 0 and at most 1", "top_p"};
  if (!read_number(body, "top_k", -1, 1e9, sampling.top_k))
    return BadRequest{"must be an integer; 0 or -1 is off", "top_k"};
  if (!read_number(body, "seed", 0, 9.3e18, sampling.seed))
    return BadRequest{"must be an integer from 0 to 2^63 - 1", "seed"};
  if (!read_stop(body, sampling.stop)) return BadRequest{"must be a text or at most four texts, none empty", "stop"};
  if (!read_flag(body, "logprobs", request.logprobs)) return BadRequest{"must be true or false", "logprobs"};
  if (!read_flag(body, "return_token_ids", request.return_token_ids))
    return BadRequest{"must be true or false", "return_token_ids"};
  if (!read_flag(body, "stream", stream) || stream)
    return BadRequest{"streaming is not served yet: leave it out", "stream"};
  if (!read_number(body, "n", 1, 1, n)) return BadRequest{"only 1 is served", "n"};
  return {};
}

nlohmann::json logprobs_of(const Tokenizer& tokenizer, const FinishedTurn& turn) {
  auto content = nlohmann::json::array();
  for (std::size_t i = 0; i < turn.tokens.size(); ++i) {
    const std::string_view bytes = tokenizer.bytes_of(turn.tokens[i]);
    auto codes = nlohmann::json::array();
    for (const char byte : bytes) codes.push_back(static_cast<unsigned char>(byte));
    content.push_back({{"token", tokenizer.decode({turn.tokens[i]})},
                       {"logprob", turn.logp[i]},
                       {"bytes", codes},
                       {"top_logprobs", nlohmann::json::array()}});
  }
  return {{"content", content}};
}

nlohmann::json completion_json(const GatewaySetup& setup, const ChatRequest& request, const Tokens& prompt,
                               const FinishedTurn& turn, std::uint64_t number) {
  const Tokenizer& tokenizer = *setup.model->tokenizer;
  nlohmann::json choice = {
      {"index", 0},
      {"message", {{"role", "assistant"}, {"content", tokenizer.decode(turn.tokens)}}},
      {"logprobs", request.logprobs ? logprobs_of(tokenizer, turn) : nlohmann::json()},
      {"finish_reason", turn.finish == Finish::stop ? "stop" : "length"},
  };
  nlohmann::json body = {
      {"id", "chatcmpl-" + std::to_string(number)},
      {"object", "chat.completion"},
      {"created",
       std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count()},
      {"model", setup.model->name},
      {"system_fingerprint", "millrace-" + std::to_string(turn.last_weights)},
      {"usage",
       {{"prompt_tokens", prompt.size()},
        {"completion_tokens", turn.tokens.size()},
        {"total_tokens", prompt.size() + turn.tokens.size()}}},
  };
  if (request.return_token_ids) {
    choice["token_ids"] = turn.tokens;
    body["prompt_token_ids"] = prompt;
  }
  body["choices"] = nlohmann::json::array({choice});
  return body;
}

}  // namespace

void get_models(GatewaySelf, const GatewaySetup& setup, const HttpExchange& exchange) {
  exchange.reply(json_response(
      {{"object", "list"},
       {"data", {{{"id", setup.model->name}, {"object", "model"}, {"created", 0}, {"owned_by", "millrace"}}}}}));
}

void post_chat(GatewaySelf self, const GatewaySetup& setup, const HttpExchange& exchange) {
  ChatRequest request;
  const nlohmann::json body = nlohmann::json::parse(exchange.request.body, nullptr, false);
  if (const auto bad = parse_chat(body, setup.settings.model.max_context, request)) {
    return exchange.reply(http_error(400, bad->message, "invalid_request_error", bad->param));
  }
  const expected<Tokens> encoded = encode_chat(*setup.model->tokenizer, request.messages);
  if (!encoded) return exchange.reply(http_error(400, encoded.error().message, "invalid_request_error", "messages"));
  const Tokens& prompt = *encoded;
  const std::uint64_t number = self->state.next_completion++;
  self->request(setup.generator, caf::infinite, generate_atom_v, TurnRequest{prompt, request.sampling})
      .then(
          [setup, exchange, request, prompt, number](const TurnReply& reply) {
            if (!reply)
              return exchange.reply(http_error(400, reply.error().message, "invalid_request_error", "messages"));
            HttpResponse response = json_response(completion_json(setup, request, prompt, *reply, number));
            const Version first = reply->versions.empty() ? reply->last_weights : reply->versions.front();
            response.headers["x-millrace-policy-version"] = std::to_string(first);
            exchange.reply(std::move(response));
          },
          [exchange](const caf::error& error) {
            exchange.reply(http_error(503, "the generator gave no answer: " + caf::to_string(error), "server_error"));
          });
}

}  // namespace millrace
