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
  const ParsedRequest parsed =
      chat({{"max_completion_tokens", 9}, {"temperature", 0.7}, {"top_p", 0.5},   {"top_k", 3},
            {"seed", 9223372036854775807},  {"stop", "END"},     {"n", 2},         {"stream", true},
            {"logprobs", true},             {"user", "ada"},     {"unknown", true}, {"min_p", 0.0},
            {"stream_options", {{"include_usage", true}}},       {"tools", nullptr}});
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
  const ParsedRequest parts = parse_chat_request(
      {{"messages", {{{"role", "developer"}, {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}}}}},
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
  CHECK(wrong({{"top_logprobs", 5}}) == "top_logprobs");
  CHECK(wrong({{"repetition_penalty", 1.1}}) == "repetition_penalty");
  CHECK(wrong({{"repetition_penalty", 1.0}}) == "nothing");
  CHECK(parse_chat_request(json::array(), *bytes, 512).error().param.empty());
  CHECK(parse_text_request({{"prompt", ""}, {"n", 1}}, *bytes));  // an empty text: the decoder says what is wrong
  CHECK(parse_text_request({{"prompt", {1, -2}}}, *bytes).error().param == "prompt");
  CHECK(parse_text_request(json::object(), *bytes).error().param == "prompt");
}

TEST_CASE("token ids in, token ids and log-probs out, as TRL calls vLLM") {
  const ParsedRequest parsed = parse_text_request(
      {{"model", "x"}, {"prompt", {104, 105}}, {"max_tokens", 8}, {"temperature", 1.0}, {"top_p", 1.0}, {"top_k", -1},
       {"repetition_penalty", 1.0}, {"n", 1}, {"return_token_ids", true}, {"logprobs", 0}, {"seed", 4611686018427387904}},
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
  const ParsedRequest parsed = chat({{"stream", true}, {"stop", "END"}, {"return_token_ids", true}, {"logprobs", true},
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
