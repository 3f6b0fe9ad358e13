#include "runtime/openai/completion.hpp"

#include <algorithm>

#include "runtime/clock.hpp"
#include "runtime/http_stream.hpp"

namespace millrace {
namespace {

using nlohmann::json;

// Text of a model need not be valid UTF-8; a message of a stream has to be.
std::string to_message(const json& body) {
  return sse_message(body.dump(-1, ' ', false, json::error_handler_t::replace));
}

// [{"version": "41", "start": 0, "end": 17}, ...]: which weights sampled which tokens.
json version_spans(const std::vector<Version>& versions) {
  json spans = json::array();
  for (std::size_t i = 0; i < versions.size(); ++i) {
    if (i == 0 || versions[i] != versions[i - 1]) {
      spans.push_back({{"version", std::to_string(versions[i])}, {"start", i}, {"end", i}});
    }
    spans.back()["end"] = i + 1;
  }
  return spans;
}

}  // namespace

Completion::Completion(CompletionRequest request, std::shared_ptr<const Tokenizer> tokenizer, std::string model,
                       std::string id, std::string receipt)
    : request_(std::move(request)),
      tokenizer_(std::move(tokenizer)),
      model_(std::move(model)),
      id_(std::move(id)),
      receipt_(std::move(receipt)),
      created_(static_cast<std::int64_t>(unix_now())),
      begun_(request_.prompts.size() * static_cast<std::size_t>(request_.n), false),
      unfinished_(begun_.size()) {
  for (std::size_t i = 0; i < begun_.size(); ++i) {
    choices_.push_back({ChoiceText(*tokenizer_, request_.sampling.stop), {}, "", "", 0, {}, 0});
  }
}

const Tokens& Completion::prompt(std::size_t choice) const {
  return request_.prompts[choice / static_cast<std::size_t>(request_.n)];
}

Sampling Completion::sampling(std::size_t choice) const {
  Sampling sampling = request_.sampling;
  sampling.seed += 0x9E3779B97F4A7C15ULL * choice;
  return sampling;
}

std::string Completion::receipt(std::size_t choice) const {
  return receipt_.empty() || choice == 0 ? receipt_ : receipt_ + "." + std::to_string(choice);
}

std::string Completion::add(std::size_t index, const SampledTokens& tokens) {
  Choice& choice = choices_[index];
  const std::size_t from = choice.sampled.tokens.size();
  std::string text;
  for (std::size_t i = 0; i < tokens.tokens.size(); ++i) {
    choice.sampled.tokens.push_back(tokens.tokens[i]);
    choice.sampled.logp.push_back(tokens.logp[i]);
    choice.sampled.versions.push_back(tokens.versions[i]);
    if (!tokens.top.empty()) choice.sampled.top.push_back(tokens.top[i]);
    text += choice.decoder.push(tokens.tokens[i]);
  }
  choice.text += text;
  if (!request_.tools.is_null()) {  // what may become a tool call waits
    text = choice.text.substr(choice.told, std::max(certain_text(choice.text), choice.told) - choice.told);
    choice.told += text.size();
  }
  const bool counts = request_.logprobs || request_.return_token_ids;  // then also tokens without text are told
  if (!request_.stream || (text.empty() && !counts)) return "";
  return chunk(index, from, text, false);
}

std::string Completion::finish(std::size_t index, const FinishedTurn& turn) {
  Choice& choice = choices_[index];
  const auto known = static_cast<std::ptrdiff_t>(choice.sampled.tokens.size());
  std::string messages =
      add(index, {{turn.tokens.begin() + known, turn.tokens.end()},
                  {turn.logp.begin() + known, turn.logp.end()},
                  {turn.versions.begin() + known, turn.versions.end()},
                  turn.top.empty() ? turn.top : std::vector(turn.top.begin() + known, turn.top.end())});
  std::string rest = choice.decoder.finish();
  choice.text += rest;
  choice.finish_reason = turn.finish == Finish::stop ? "stop" : "length";
  choice.parts =
      request_.tools.is_null() ? AnswerParts{choice.text, {}} : parse_tool_calls(choice.text, request_.tools);
  if (!request_.tools.is_null()) rest = choice.parts.content.substr(std::min(choice.told, choice.parts.content.size()));
  if (!choice.parts.calls.empty() && turn.finish == Finish::stop) choice.finish_reason = "tool_calls";
  choice.last_weights = turn.last_weights;
  --unfinished_;
  if (!request_.stream) return "";
  messages += chunk(index, choice.sampled.tokens.size(), rest, true);
  if (!complete()) return messages;
  if (request_.include_usage) {
    json last = head(request_.chat ? "chat.completion.chunk" : "text_completion");
    last["choices"] = json::array();
    last["usage"] = usage();
    messages += to_message(last);
  }
  return messages + sse_message("[DONE]");
}

Version Completion::first_version() const {
  const Choice& first = choices_.front();
  return first.sampled.versions.empty() ? first.last_weights : first.sampled.versions.front();
}

Interaction Completion::interaction(std::size_t index, const FinishedTurn& turn) const {
  Interaction result;
  result.id = receipt(index);
  result.prompt = prompt(index);
  result.sampled = {turn.tokens, turn.logp, turn.versions};
  const Sampling& sampling = request_.sampling;
  result.temperature = sampling.temperature;
  result.full_support = sampling.temperature > 0 && sampling.top_p >= 1 && sampling.top_k <= 0;
  result.ended = !turn.tokens.empty() && turn.tokens.back() == tokenizer_->eos();
  for (const Message& message : request_.messages) {
    if (message.role == "user") result.task = message.content;
  }
  if (!request_.chat) result.task = tokenizer_->decode(result.prompt);
  result.answer = choices_[index].text;
  return result;
}

std::string Completion::dialogue(const std::string& owner, std::size_t index) const {
  if (!request_.chat) return "";
  std::vector<Message> messages = request_.messages;
  const AnswerParts& parts = choices_[index].parts;
  messages.push_back({"assistant", words_with_calls(parts.content, parts.calls)});
  return dialogue_key(owner, messages);
}

json Completion::body() const {
  json body = head(request_.chat ? "chat.completion" : "text_completion");
  json list = json::array();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    json entry = ending(choice);
    entry["index"] = i;
    entry["logprobs"] = request_.logprobs ? logprobs(choice, 0) : json();
    if (request_.chat) {
      entry["message"] = {{"role", "assistant"}, {"content", choice.parts.content}};
      if (!choice.parts.calls.empty()) {
        if (choice.parts.content.empty()) entry["message"]["content"] = json();
        entry["message"]["tool_calls"] = tool_calls(i);
      }
    } else {
      entry["text"] = choice.text;
    }
    if (request_.return_token_ids) {
      entry["token_ids"] = choice.sampled.tokens;
      if (!request_.chat) entry["prompt_token_ids"] = prompt(i);
    }
    list.push_back(std::move(entry));
  }
  body["choices"] = std::move(list);
  body["usage"] = usage();
  body["millrace"] = extension();
  if (request_.return_token_ids && request_.chat) body["prompt_token_ids"] = prompt(0);
  return body;
}

json Completion::head(const char* object) const {
  Version newest = 0;
  for (const Choice& choice : choices_) {
    newest = std::max(newest, choice.last_weights);
    if (!choice.sampled.versions.empty()) newest = std::max(newest, choice.sampled.versions.back());
  }
  return {{"id", id_},
          {"object", object},
          {"created", created_},
          {"model", model_},
          {"system_fingerprint", "millrace-" + std::to_string(newest)}};
}

// What is ours alone: which weights sampled what, and the receipts for feedback. A list has an entry a choice.
json Completion::extension() const {
  json extension = {{"weight_version", std::to_string(first_version())},
                    {"weight_versions", version_spans(choices_.front().sampled.versions)}};
  if (!receipt_.empty()) {
    extension["interaction_id"] = receipt_;
    for (std::size_t i = 0; i < choices_.size(); ++i) extension["interaction_ids"].push_back(receipt(i));
  }
  return extension;
}

json Completion::usage() const {
  std::size_t prompt_tokens = 0;
  std::size_t sampled = 0;
  for (const Tokens& tokens : request_.prompts) prompt_tokens += tokens.size();
  for (const Choice& choice : choices_) sampled += choice.sampled.tokens.size();
  return {{"prompt_tokens", prompt_tokens}, {"completion_tokens", sampled}, {"total_tokens", prompt_tokens + sampled}};
}

std::string Completion::name_of(TokenId token) const {
  return request_.tokens_as_ids ? "token_id:" + std::to_string(token) : tokenizer_->decode({token});
}

json Completion::tool_calls(std::size_t index) const {
  json list = json::array();
  for (const ToolCall& call : choices_[index].parts.calls) {
    const std::string id = "call-" + id_ + "-" + std::to_string(index) + "-" + std::to_string(list.size());
    list.push_back(
        {{"id", id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return list;
}

json Completion::logprobs(const Choice& choice, std::size_t from) const {
  const auto codes_of = [](std::string_view bytes) {
    json codes = json::array();
    for (const char byte : bytes) codes.push_back(static_cast<unsigned char>(byte));
    return codes;
  };
  json tops = json::array();
  json content = json::array();
  json tokens = json::array();
  json values = json::array();
  json offsets = json::array();
  std::size_t offset = 0;
  for (std::size_t i = 0; i < choice.sampled.tokens.size(); ++i) {
    const TokenId id = choice.sampled.tokens[i];
    const std::string_view bytes = tokenizer_->bytes_of(id);
    const std::size_t start = offset;
    offset += bytes.size();
    if (i < from) continue;
    const TopTokens& top = choice.sampled.top.empty() ? TopTokens() : choice.sampled.top[i];
    if (request_.chat) {
      json alternatives = json::array();
      for (const auto& [other, logp] : top) {
        alternatives.push_back(
            {{"token", name_of(other)}, {"logprob", logp}, {"bytes", codes_of(tokenizer_->bytes_of(other))}});
      }
      content.push_back({{"token", name_of(id)},
                         {"logprob", choice.sampled.logp[i]},
                         {"bytes", codes_of(bytes)},
                         {"top_logprobs", alternatives}});
    } else {
      tokens.push_back(name_of(id));
      values.push_back(choice.sampled.logp[i]);
      offsets.push_back(start);
      tops.push_back(json::object());
      for (const auto& [other, logp] : top) tops.back()[name_of(other)] = logp;
    }
  }
  if (request_.chat) return {{"content", content}};
  return {{"tokens", tokens},
          {"token_logprobs", values},
          {"top_logprobs", request_.sampling.top_logprobs > 0 ? tops : json()},
          {"text_offset", offsets}};
}

json Completion::ending(const Choice& choice) const {
  const auto& stop = choice.decoder.stopped_by();
  return {{"finish_reason", choice.finish_reason.empty() ? json() : json(choice.finish_reason)},
          {"stop_reason", stop ? json(*stop) : json()}};
}

std::string Completion::chunk(std::size_t index, std::size_t from, const std::string& text, bool last) {
  const Choice& choice = choices_[index];
  const char* object = request_.chat ? "chat.completion.chunk" : "text_completion";
  std::string messages;
  if (!begun_[index]) {
    begun_[index] = true;
    json first = head(object);
    json entry = {{"index", index}, {"logprobs", json()}, {"finish_reason", json()}};
    if (request_.chat) {
      entry["delta"] = {{"role", "assistant"}, {"content", ""}};
      if (request_.return_token_ids) first["prompt_token_ids"] = prompt(index);
    } else {
      entry["text"] = "";
      if (request_.return_token_ids) entry["prompt_token_ids"] = prompt(index);
    }
    first["choices"] = json::array({entry});
    if (!receipt_.empty()) first["millrace"] = {{"interaction_id", receipt(index)}};
    messages += to_message(first);
  }
  json body = head(object);
  json entry = last ? ending(choice) : json{{"finish_reason", json()}};
  entry["index"] = index;
  const bool fresh = from < choice.sampled.tokens.size();
  entry["logprobs"] = request_.logprobs && fresh ? logprobs(choice, from) : json();
  if (request_.chat) {
    entry["delta"] = text.empty() && last ? json::object() : json{{"content", text}};
    if (last && !choice.parts.calls.empty()) {
      entry["delta"]["tool_calls"] = tool_calls(index);
      for (std::size_t i = 0; i < choice.parts.calls.size(); ++i) entry["delta"]["tool_calls"][i]["index"] = i;
    }
  } else {
    entry["text"] = text;
  }
  if (request_.return_token_ids && fresh) {
    const auto begin = choice.sampled.tokens.begin() + static_cast<std::ptrdiff_t>(from);
    entry["token_ids"] = Tokens(begin, choice.sampled.tokens.end());
  }
  body["choices"] = json::array({entry});
  return messages + to_message(body);
}

}  // namespace millrace
