#include "runtime/openai/request.hpp"

#include <algorithm>
#include <optional>
#include <random>

#include "runtime/openai/tool_calls.hpp"

namespace millrace {
namespace {

using json = nlohmann::ordered_json;  // tools are shown to the model in the order they are given in

constexpr int most_top = 20;             // alternatives to a token
constexpr int most_choices = 64;         // answers to one request
constexpr double most_tokens = 1e9;      // the context cuts sooner
constexpr double largest_seed = 9.3e18;  // above 2^63 - 1, and whole as a double

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 31) ^ device();
}

// Reads one field after the other and remembers the first that is wrong. Null is the same as not there.
class Fields {
 public:
  explicit Fields(const json& body) : body_(body) {
    if (!body.is_object()) fail("the body must be a JSON object", "");
  }

  const json* find(const char* key) const {
    if (bad_) return nullptr;
    const auto found = body_.find(key);
    return found == body_.end() || found->is_null() ? nullptr : &*found;
  }

  template <class T>
  void number(const char* key, double low, double high, const char* must, T& into) {
    const json* value = find(key);
    if (!value) return;
    const bool fits = (std::is_integral_v<T> ? value->is_number_integer() : value->is_number()) &&
                      value->get<double>() >= low && value->get<double>() <= high;
    fits ? void(into = value->get<T>()) : fail(must, key);
  }

  void flag(const char* key, bool& into) {
    const json* value = find(key);
    if (!value) return;
    value->is_boolean() ? void(into = value->get<bool>()) : fail("must be true or false", key);
  }

  // What would change the answer and is not served may be there as long as it says nothing.
  void neutral(const char* key, std::initializer_list<json> values) {
    const json* value = find(key);
    if (!value || std::find(values.begin(), values.end(), *value) != values.end()) return;
    fail("is not served: leave it out", key);
  }

  void fail(std::string message, std::string param) {
    if (!bad_) bad_ = BadRequest{std::move(message), std::move(param)};
  }
  const std::optional<BadRequest>& bad() const { return bad_; }

 private:
  const json& body_;
  std::optional<BadRequest> bad_;
};

void read_stop(Fields& fields, std::vector<std::string>& stop) {
  const json* value = fields.find("stop");
  if (!value) return;
  const json list = value->is_string() ? json::array({*value}) : *value;
  const bool fits = list.is_array() && list.size() <= 16 && std::all_of(list.begin(), list.end(), [](const json& text) {
                      return text.is_string() && !text.get_ref<const std::string&>().empty();
                    });
  fits ? void(stop = list.get<std::vector<std::string>>()) : fields.fail("must be a text or texts, none empty", "stop");
}

void read_common(Fields& fields, CompletionRequest& request) {
  Sampling& sampling = request.sampling;
  sampling.seed = random_seed();
  fields.number("max_tokens", 1, most_tokens, "must be an integer >= 1", sampling.max_tokens);
  fields.number("temperature", 0, 2, "must be from 0 to 2", sampling.temperature);
  fields.number("top_p", 1e-6, 1, "must be above 0 and at most 1", sampling.top_p);
  fields.number("top_k", -1, 1e9, "must be an integer; 0 or -1 is off", sampling.top_k);
  fields.number("seed", 0, largest_seed, "must be an integer from 0 to 2^63 - 1", sampling.seed);
  fields.number("n", 1, most_choices, "must be from 1 to 64", request.n);
  fields.flag("stream", request.stream);
  fields.flag("return_token_ids", request.return_token_ids);
  fields.flag("return_tokens_as_token_ids", request.tokens_as_ids);
  read_stop(fields, sampling.stop);
  if (const json* options = fields.find("stream_options"))
    Fields(*options).flag("include_usage", request.include_usage);
  if (const json* model = fields.find("model")) request.reference = *model == reference_model;
  if (const json* user = fields.find("user"); user && user->is_string()) request.user = *user;
  for (const char* off : {"min_p", "presence_penalty", "frequency_penalty", "min_tokens"}) fields.neutral(off, {0});
  for (const char* off : {"ignore_eos", "echo", "continue_final_message"}) fields.neutral(off, {false});
  fields.neutral("repetition_penalty", {1});
  fields.neutral("best_of", {1});
  fields.neutral("add_generation_prompt", {true});
  fields.neutral("logit_bias", {json::object()});
  fields.neutral("stop_token_ids", {json::array()});
  fields.neutral("response_format", {{{"type", "text"}}});
  fields.neutral("prompt_logprobs", {});
  fields.neutral("suffix", {""});
  if (fields.find("temperature") && sampling.temperature > 0 && sampling.temperature < 0.01) {
    fields.fail("must be 0 (greedy) or at least 0.01", "temperature");
  }
}

// A text, or the parts of one: [{"type": "text", "text": "..."}].
std::optional<std::string> text_of(const json& content) {
  if (content.is_null()) return "";
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return {};
  std::string text;
  for (const json& part : content) {
    if (!part.is_object() || part.value("type", "") != "text" || !part.contains("text") || !part["text"].is_string()) {
      return {};
    }
    text += part["text"].get<std::string>();
  }
  return text;
}

// The calls of an assistant's message, as templates want them: with their arguments as an object.
std::optional<std::vector<ToolCall>> calls_of(const json& message, json& for_template) {
  std::vector<ToolCall> calls;
  const json given = message.value("tool_calls", json());
  if (given.is_null()) return calls;
  if (!given.is_array()) return {};
  for (const json& call : given) {
    const json function = call.is_object() ? call.value("function", json()) : json();
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) return {};
    const json text = function.value("arguments", json("{}"));
    const json arguments = text.is_string() ? json::parse(text.get<std::string>(), nullptr, false) : text;
    if (!arguments.is_object()) return {};
    calls.push_back({function["name"], arguments.dump(-1, ' ', false, json::error_handler_t::replace)});
    for_template["tool_calls"].push_back(
        {{"type", "function"}, {"function", {{"name", function["name"]}, {"arguments", arguments}}}});
  }
  return calls;
}

void read_messages(Fields& fields, std::vector<Message>& messages, Conversation& conversation) {
  const json* list = fields.find("messages");
  const char* must = "must be a non-empty list of {role: system|user|assistant|tool, content: text}";
  if (!list || !list->is_array() || list->empty()) return fields.fail(must, "messages");
  for (const json& message : *list) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      return fields.fail(must, "messages");
    }
    std::string role = message["role"];
    if (role == "developer") role = "system";
    const auto text = text_of(message.value("content", json()));
    if (!text || (role != "system" && role != "user" && role != "assistant" && role != "tool")) {
      return fields.fail(must, "messages");
    }
    json for_template = {{"role", role}, {"content", *text}};
    const auto calls = calls_of(message, for_template);
    if (!calls)
      return fields.fail("tool_calls must be a list of {function: {name, arguments: a JSON object}}", "messages");
    for (const char* key : {"tool_call_id", "name"}) {
      if (message.contains(key) && message[key].is_string()) for_template[key] = message[key];
    }
    messages.push_back({role, words_with_calls(*text, *calls)});
    conversation.messages.push_back(std::move(for_template));
  }
}

void read_tools(Fields& fields, json& tools) {
  const json* given = fields.find("tools");
  const json choice = fields.find("tool_choice") ? *fields.find("tool_choice") : json("auto");
  if (choice != "auto" && choice != "none")
    return fields.fail("must be auto or none: no other is served", "tool_choice");
  if (!given) return;
  const bool fits = given->is_array() && std::all_of(given->begin(), given->end(), [](const json& tool) {
                      return tool.is_object() && tool.value("type", json()) == "function" &&
                             tool.contains("function") && tool["function"].is_object() &&
                             tool["function"].value("name", json()).is_string();
                    });
  if (!fits) return fields.fail("must be a list of {type: function, function: {name, ...}}", "tools");
  if (choice == "auto" && !given->empty()) tools = *given;
}

bool is_token_list(const json& value) {
  return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), [](const json& id) {
           return id.is_number_integer() && id.get<std::int64_t>() >= 0 && id.get<std::int64_t>() <= 0x7FFFFFFF;
         });
}

// One prompt or several, each a text or a list of token ids.
void read_prompts(Fields& fields, const Tokenizer& tokenizer, std::vector<Tokens>& prompts) {
  const json* given = fields.find("prompt");
  const char* must = "must be a text, a list of token ids, or a list of these";
  if (!given) return fields.fail(must, "prompt");
  const json list = given->is_string() || is_token_list(*given) ? json::array({*given}) : *given;
  if (!list.is_array() || list.empty()) return fields.fail(must, "prompt");
  for (const json& prompt : list) {
    if (prompt.is_string()) {
      prompts.push_back(tokenizer.encode(prompt.get_ref<const std::string&>()));
    } else if (is_token_list(prompt)) {
      prompts.push_back(prompt.get<Tokens>());
    } else {
      return fields.fail(must, "prompt");
    }
  }
}

ParsedRequest finish(const Fields& fields, CompletionRequest request) {
  if (fields.bad()) return tl::unexpected(*fields.bad());
  if (std::ssize(request.prompts) * request.n > most_choices) {
    return tl::unexpected(BadRequest{"more than 64 answers to one request", "n"});
  }
  return request;
}

}  // namespace

ParsedRequest parse_chat_request(const json& body, const Tokenizer& tokenizer, int max_context) {
  CompletionRequest request;
  Fields fields(body);
  request.sampling.max_tokens = max_context;
  Conversation conversation;
  read_messages(fields, request.messages, conversation);
  read_tools(fields, request.tools);
  conversation.tools = request.tools;
  read_common(fields, request);
  fields.number("max_completion_tokens", 1, most_tokens, "must be an integer >= 1", request.sampling.max_tokens);
  fields.flag("logprobs", request.logprobs);
  fields.number("top_logprobs", 0, most_top, "must be an integer from 0 to 20", request.sampling.top_logprobs);
  if (request.sampling.top_logprobs > 0 && !request.logprobs) fields.fail("needs logprobs: true", "top_logprobs");
  if (!fields.bad()) {
    expected<Tokens> prompt = encode_conversation(tokenizer, conversation);
    if (!prompt) {
      fields.fail(prompt.error().message, "messages");
    } else {
      request.prompts = {std::move(*prompt)};
    }
  }
  return finish(fields, std::move(request));
}

ParsedRequest parse_text_request(const json& body, const Tokenizer& tokenizer) {
  CompletionRequest request;
  Fields fields(body);
  request.chat = false;
  request.sampling.max_tokens = 16;
  read_prompts(fields, tokenizer, request.prompts);
  read_common(fields, request);
  fields.number("logprobs", 0, most_top, "must be an integer from 0 to 20", request.sampling.top_logprobs);
  request.logprobs = fields.find("logprobs") != nullptr;
  return finish(fields, std::move(request));
}

}  // namespace millrace
