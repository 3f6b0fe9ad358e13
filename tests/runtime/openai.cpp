// Requests of the OpenAI API as they are read, and the answers made of sampled tokens.
#include <doctest/doctest.h>

#include "runtime/openai/completion.hpp"

using namespace millrace;
using nlohmann::json;

namespace {

const std::shared_ptr<const Tokenizer> bytes = std::make_shared<const Tokenizer>(Tokenizer::bytes());

ParsedRequest chat(const json& more) {
  json body = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  body.update(more);
  return parse_chat_request(body, *bytes, 512);
}

std::string wrong(const json& more) {
  const ParsedRequest parsed = chat(more);
  return parsed ? "nothing" : parsed.error().param;
}

Completion completion(const ParsedRequest& parsed, const std::string& receipt = "") {
  REQUIRE(parsed);
  return Completion(*parsed, bytes, "model", "id-1", receipt);
}

SampledTokens tokens_of(const std::string& text, Version version = 7) {
  SampledTokens sampled;
  for (const char c : text) {
    sampled.tokens.push_back(static_cast<unsigned char>(c));
    sampled.logp.push_back(-0.5F);
    sampled.versions.push_back(version);
  }
  return sampled;
}

FinishedTurn turn_of(const SampledTokens& sampled, Finish finish) {
  FinishedTurn turn;
  turn.tokens = sampled.tokens;
  turn.logp = sampled.logp;
  turn.versions = sampled.versions;
  turn.finish = finish;
  turn.last_weights = sampled.versions.empty() ? 7 : sampled.versions.back();
  return turn;
}

// The JSON objects of an event stream; "[DONE]" is left out.
std::vector<json> messages_of(const std::string& stream) {
  std::vector<json> list;
  for (std::size_t at = 0; (at = stream.find("data: ", at)) != std::string::npos; ++at) {
    const std::string line = stream.substr(at + 6, stream.find('\n', at) - at - 6);
    if (line != "[DONE]") list.push_back(json::parse(line));
  }
  return list;
}

}  // namespace

TEST_CASE("what a request says is read") {
  const ParsedRequest parsed = chat({{"max_completion_tokens", 9},
                                     {"temperature", 0.7},
                                     {"top_p", 0.5},
                                     {"top_k", 3},
                                     {"seed", 9223372036854775807},
                                     {"stop", "END"},
                                     {"n", 2},
                                     {"stream", true},
                                     {"logprobs", true},
                                     {"user", "ada"},
                                     {"unknown", true},
                                     {"min_p", 0.0},
                                     {"stream_options", {{"include_usage", true}}},
                                     {"tools", nullptr}});
  REQUIRE_MESSAGE(parsed, parsed.error().param);
  CHECK(parsed->sampling.max_tokens == 9);
  CHECK(parsed->sampling.temperature == 0.7);
  CHECK(parsed->sampling.seed == 9223372036854775807U);
  CHECK(parsed->sampling.stop == std::vector<std::string>{"END"});
  CHECK(parsed->n == 2);
  CHECK(parsed->stream);
  CHECK(parsed->include_usage);
  CHECK(parsed->user == "ada");
  CHECK(parsed->prompts.at(0) == *encode_chat(*bytes, {{"user", "hi"}}));
  const ParsedRequest parts =
      parse_chat_request({{"messages",
                           {{{"role", "developer"},
                             {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}}}}},
                         *bytes, 512);
  REQUIRE(parts);
  CHECK(parts->messages.at(0).role == "system");
  CHECK(parts->messages.at(0).content == "ab");
}

TEST_CASE("what is wrong is refused by name, and so is what would change the answer and is not served") {
  CHECK(wrong({{"temperature", 2.5}}) == "temperature");
  CHECK(wrong({{"temperature", 0.001}}) == "temperature");
  CHECK(wrong({{"temperature", "hot"}}) == "temperature");
  CHECK(wrong({{"max_tokens", 0}}) == "max_tokens");
  CHECK(wrong({{"max_tokens", 1.5}}) == "max_tokens");
  CHECK(wrong({{"max_tokens", 1e18}}) == "max_tokens");
  CHECK(wrong({{"seed", -1}}) == "seed");
  CHECK(wrong({{"n", 0}}) == "n");
  CHECK(wrong({{"n", 65}}) == "n");
  CHECK(wrong({{"stop", {"a", ""}}}) == "stop");
  CHECK(wrong({{"stream", "yes"}}) == "stream");
  CHECK(wrong({{"messages", json::array()}}) == "messages");
  CHECK(wrong({{"messages", {{{"role", "king"}, {"content", "x"}}}}}) == "messages");
  CHECK(wrong({{"messages", {{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}}}) == "messages");
  CHECK(wrong({{"presence_penalty", 0.5}}) == "presence_penalty");
  CHECK(wrong({{"top_logprobs", 5}}) == "top_logprobs");  // without logprobs
  CHECK(wrong({{"top_logprobs", 21}, {"logprobs", true}}) == "top_logprobs");
  CHECK(wrong({{"top_logprobs", 20}, {"logprobs", true}}) == "nothing");
  CHECK(wrong({{"tools", {{{"type", "function"}}}}}) == "tools");
  CHECK(wrong({{"tools", "calculate"}}) == "tools");
  CHECK(wrong({{"tool_choice", "required"}}) == "tool_choice");
  CHECK(wrong({{"messages",
                {{{"role", "assistant"}, {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", "x"}}}}}}}}}}) ==
        "messages");
  CHECK(wrong({{"repetition_penalty", 1.1}}) == "repetition_penalty");
  CHECK(wrong({{"repetition_penalty", 1.0}}) == "nothing");
  CHECK(parse_chat_request(json::array(), *bytes, 512).error().param.empty());
  CHECK(parse_text_request({{"prompt", ""}, {"n", 1}}, *bytes));  // an empty text: the decoder says what is wrong
  CHECK(parse_text_request({{"prompt", {1, -2}}}, *bytes).error().param == "prompt");
  CHECK(parse_text_request(json::object(), *bytes).error().param == "prompt");
}

TEST_CASE("token ids in, token ids and log-probs out, as TRL calls vLLM") {
  const ParsedRequest parsed = parse_text_request({{"model", "x"},
                                                   {"prompt", {104, 105}},
                                                   {"max_tokens", 8},
                                                   {"temperature", 1.0},
                                                   {"top_p", 1.0},
                                                   {"top_k", -1},
                                                   {"repetition_penalty", 1.0},
                                                   {"n", 1},
                                                   {"return_token_ids", true},
                                                   {"logprobs", 0},
                                                   {"seed", 4611686018427387904}},
                                                  *bytes);
  Completion answer = completion(parsed);
  CHECK(answer.prompt(0) == Tokens{104, 105});
  SampledTokens sampled = tokens_of("abc");
  sampled.tokens.push_back(bytes->eos());
  sampled.logp.push_back(-0.25F);
  sampled.versions.push_back(8);
  CHECK(answer.finish(0, turn_of(sampled, Finish::stop)).empty());
  const json body = answer.body();
  const json& choice = body["choices"][0];
  CHECK(choice["text"] == "abc");  // without the end-of-turn token, whose id and log-prob are kept
  CHECK(choice["token_ids"] == sampled.tokens);
  CHECK(choice["prompt_token_ids"] == Tokens{104, 105});
  CHECK(choice["logprobs"]["token_logprobs"].size() == 4);
  CHECK(choice["logprobs"]["token_logprobs"][3] == -0.25);
  CHECK(choice["finish_reason"] == "stop");
  CHECK(body["object"] == "text_completion");
  CHECK(body["usage"]["completion_tokens"] == 4);
  CHECK(body["millrace"]["weight_versions"] ==
        json{{{"version", "7"}, {"start", 0}, {"end", 3}}, {{"version", "8"}, {"start", 3}, {"end", 4}}});
}

TEST_CASE("a stop text is cut from the text, not from the tokens (B03)") {
  Completion answer = completion(chat({{"stop", {"END", "ENOUGH"}}, {"logprobs", true}, {"return_token_ids", true}}));
  answer.finish(0, turn_of(tokens_of("so it is. END"), Finish::stop));
  const json choice = answer.body()["choices"][0];
  CHECK(choice["message"]["content"] == "so it is. ");
  CHECK(choice["stop_reason"] == "END");
  CHECK(choice["token_ids"].size() == 13);
  CHECK(choice["logprobs"]["content"].size() == 13);

  Completion cut = completion(chat({{"stop", "END"}}));
  cut.finish(0, turn_of(tokens_of("so it EN"), Finish::length));
  CHECK(cut.body()["choices"][0]["message"]["content"] == "so it EN");  // the beginning of a stop text is no stop
  CHECK(cut.body()["choices"][0]["finish_reason"] == "length");
  CHECK(cut.body()["choices"][0]["stop_reason"].is_null());
}

TEST_CASE("a stream says the same as the whole answer, never half a character and never a stop text") {
  const std::string text = "na\xC3\xAFve \xF0\x9F\x8C\xB6 E EN END";
  const ParsedRequest parsed = chat({{"stream", true},
                                     {"stop", "END"},
                                     {"return_token_ids", true},
                                     {"logprobs", true},
                                     {"stream_options", {{"include_usage", true}}}});
  Completion answer = completion(parsed, "int-1");
  const SampledTokens sampled = tokens_of(text);
  std::string stream;
  for (std::size_t i = 0; i + 1 < sampled.tokens.size(); ++i) {
    stream += answer.add(0, {{sampled.tokens[i]}, {sampled.logp[i]}, {sampled.versions[i]}});
  }
  CHECK_FALSE(answer.complete());
  stream += answer.finish(0, turn_of(sampled, Finish::stop));  // brings the last token along
  CHECK(answer.complete());
  CHECK(stream.ends_with("data: [DONE]\n\n"));

  const std::vector<json> messages = messages_of(stream);
  std::string joined;
  Tokens ids;
  std::size_t logprobs = 0;
  for (const json& message : messages) {
    CHECK(message["object"] == "chat.completion.chunk");
    if (message["choices"].empty()) continue;
    const json& choice = message["choices"][0];
    joined += choice["delta"].value("content", "");
    if (choice.contains("token_ids")) {
      for (const TokenId id : choice["token_ids"].get<Tokens>()) ids.push_back(id);
    }
    if (!choice["logprobs"].is_null()) logprobs += choice["logprobs"]["content"].size();
  }
  CHECK(joined == "na\xC3\xAFve \xF0\x9F\x8C\xB6 E EN ");
  CHECK(ids == sampled.tokens);
  CHECK(logprobs == sampled.tokens.size());
  CHECK(messages.front()["choices"][0]["delta"]["role"] == "assistant");
  CHECK(messages.front()["prompt_token_ids"] == answer.prompt(0));
  CHECK(messages.front()["millrace"]["interaction_id"] == "int-1");
  CHECK(messages[messages.size() - 2]["choices"][0]["finish_reason"] == "stop");
  CHECK(messages.back()["usage"]["completion_tokens"] == sampled.tokens.size());
}

TEST_CASE("several choices have seeds and receipts of their own, and the answer waits for the last") {
  Completion answer = completion(chat({{"n", 3}, {"seed", 5}}), "int-9");
  CHECK(answer.choices() == 3);
  CHECK(answer.sampling(0).seed == 5);
  CHECK(answer.sampling(1).seed != answer.sampling(2).seed);
  answer.finish(2, turn_of(tokens_of("c"), Finish::stop));
  answer.finish(0, turn_of(tokens_of("a"), Finish::stop));
  CHECK_FALSE(answer.complete());
  answer.finish(1, turn_of(tokens_of("b"), Finish::stop));
  const json body = answer.body();
  CHECK(body["choices"][2]["message"]["content"] == "c");
  CHECK(body["choices"][2]["index"] == 2);
  CHECK(body["millrace"]["interaction_ids"] == json{"int-9", "int-9.1", "int-9.2"});
}

namespace {

const json tools = {
    {{"type", "function"}, {"function", {{"name", "calculate"}, {"parameters", {{"type", "object"}}}}}}};
const std::string call = R"(<tool_call>
{"name": "calculate", "arguments": {"b": 2, "a": "1+1"}}
</tool_call>)";

// A byte model whose template shows tools and calls.
std::shared_ptr<const Tokenizer> with_tools() {
  Vocabulary vocabulary = Tokenizer::bytes().vocabulary();
  vocabulary.chat_template =
      "{% if tools %}{{ tools | tojson }}\n{% endif %}{% for m in messages %}{{ m.role }}:{{ m.content }}"
      "{% for c in m.tool_calls or [] %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %};{% "
      "endfor %}";
  return std::make_shared<const Tokenizer>(*Tokenizer::make(std::move(vocabulary)));
}

}  // namespace

TEST_CASE("calls in an answer are told apart from its text; what is malformed stays text") {
  const auto parts = [](const std::string& answer) { return parse_tool_calls(answer, tools); };
  const AnswerParts one = parts("Let me see.\n" + call);
  CHECK(one.content == "Let me see.");
  REQUIRE(one.calls.size() == 1);
  CHECK(one.calls[0].name == "calculate");
  CHECK(one.calls[0].arguments == R"({"b":2,"a":"1+1"})");  // in its own order
  CHECK(parts(call + "\n" + call).calls.size() == 2);
  CHECK(parts(R"( {"name": "calculate", "parameters": {"a": 1}} )").calls.at(0).arguments == R"({"a":1})");
  for (const std::string text : {"<tool_call>{\"name\": \"calculate\"", "<tool_call>calculate</tool_call>",
                                 "</tool_call>", "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
                                 "<tool_call>{\"name\": \"calculate\", \"arguments\": 5}</tool_call>", "", "{"}) {
    CAPTURE(text);
    CHECK(parts(text).calls.empty());
    CHECK(parts(text).content == text);
  }
  const AnswerParts mixed = parts("<tool_call>no</tool_call> but " + call);
  CHECK(mixed.content == "<tool_call>no</tool_call> but");
  CHECK(mixed.calls.size() == 1);
}

TEST_CASE("tools are shown by the template, calls come back as such, streamed or not") {
  const auto tokenizer = with_tools();
  const json body = {
      {"tools", tools},
      {"stream", true},
      {"messages",
       {{{"role", "user"}, {"content", "1+1?"}},
        {{"role", "assistant"},
         {"content", nullptr},
         {"tool_calls", {{{"id", "c"}, {"function", {{"name", "calculate"}, {"arguments", "{\"a\": 1}"}}}}}}},
        {{"role", "tool"}, {"tool_call_id", "c"}, {"content", "2"}}}}};
  const ParsedRequest parsed = parse_chat_request(body, *tokenizer, 512);
  REQUIRE_MESSAGE(parsed, parsed.error().message);
  const std::string prompt = tokenizer->decode(parsed->prompts.at(0));
  CHECK(prompt.find("\"name\": \"calculate\"") != std::string::npos);
  CHECK(prompt.ends_with("user:1+1?;assistant:[calculate {\"a\": 1}];tool:2;"));
  CHECK(parsed->messages.at(1).content == "\ncalculate {\"a\":1}");

  Completion answer(*parsed, tokenizer, "model", "id-1", "");
  const SampledTokens sampled = tokens_of("So <b>. " + call);
  std::string stream;
  for (std::size_t i = 0; i + 1 < sampled.tokens.size(); ++i) {
    stream += answer.add(0, {{sampled.tokens[i]}, {sampled.logp[i]}, {sampled.versions[i]}});
  }
  stream += answer.finish(0, turn_of(sampled, Finish::stop));
  std::string joined;
  json calls, finish_reason;
  for (const json& message : messages_of(stream)) {
    const json& delta = message["choices"][0]["delta"];
    joined += delta.value("content", "");
    if (delta.contains("tool_calls")) calls = delta["tool_calls"];
    finish_reason = message["choices"][0]["finish_reason"];
  }
  CHECK(joined == "So <b>.");
  REQUIRE(calls.size() == 1);
  CHECK(calls[0]["index"] == 0);
  CHECK(calls[0]["function"]["arguments"] == R"({"b":2,"a":"1+1"})");
  CHECK(finish_reason == "tool_calls");
  const json choice = answer.body()["choices"][0];
  CHECK(choice["message"]["content"] == "So <b>.");
  CHECK(choice["message"]["tool_calls"][0]["id"] == calls[0]["id"]);
  CHECK(choice["finish_reason"] == "tool_calls");

  const ParsedRequest none =
      parse_chat_request({{"tools", tools}, {"tool_choice", "none"}, {"messages", body["messages"]}}, *tokenizer, 512);
  REQUIRE(none);
  CHECK(tokenizer->decode(none->prompts.at(0)).find("parameters") == std::string::npos);
  Completion plain(*none, tokenizer, "model", "id-2", "");
  plain.finish(0, turn_of(tokens_of(call), Finish::stop));
  CHECK(plain.body()["choices"][0]["message"]["content"] == call);
}

TEST_CASE("a conversation with calls is known again by its words") {
  const auto tokenizer = with_tools();
  const json first = {{"tools", tools}, {"messages", {{{"role", "user"}, {"content", "1+1?"}}}}};
  const ParsedRequest asked = parse_chat_request(first, *tokenizer, 512);
  Completion answer(*asked, tokenizer, "model", "id-1", "int-1");
  answer.finish(0, turn_of(tokens_of(call), Finish::stop));
  json message = answer.body()["choices"][0]["message"];
  json second = first;
  second["messages"].push_back(message);
  second["messages"].push_back({{"role", "tool"}, {"tool_call_id", message["tool_calls"][0]["id"]}, {"content", "2"}});
  const ParsedRequest again = parse_chat_request(second, *tokenizer, 512);
  REQUIRE_MESSAGE(again, again.error().message);
  CHECK(answer.dialogue("ada", 0) == dialogue_key("ada", {again->messages.begin(), again->messages.end() - 1}));
}

TEST_CASE("the most likely tokens beside each sampled one") {
  SampledTokens sampled = tokens_of("ab");
  sampled.top = {{{'a', -0.5F}, {'x', -1.0F}}, {{'y', -0.25F}, {'b', -0.5F}}};
  FinishedTurn turn = turn_of(sampled, Finish::length);
  turn.top = sampled.top;
  Completion answer = completion(chat({{"logprobs", true}, {"top_logprobs", 2}}));
  CHECK(answer.sampling(0).top_logprobs == 2);
  answer.finish(0, turn);
  const json content = answer.body()["choices"][0]["logprobs"]["content"];
  CHECK(content[1]["top_logprobs"][0]["token"] == "y");
  CHECK(content[1]["top_logprobs"][0]["logprob"] == -0.25);
  CHECK(content[1]["top_logprobs"][1]["bytes"] == json{'b'});
  Completion text = completion(parse_text_request({{"prompt", "x"}, {"logprobs", 2}}, *bytes));
  text.finish(0, turn);
  CHECK(text.body()["choices"][0]["logprobs"]["top_logprobs"][0] == json{{"a", -0.5}, {"x", -1.0}});
}
