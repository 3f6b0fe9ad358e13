#pragma once
// One request to the OpenAI API on its way to its answer: fed with the tokens of its choices, it makes the JSON body or
// the messages of the event stream. Plain logic; the actor in actors/gateway/completion.cpp feeds it.
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/live/interaction.hpp"
#include "runtime/openai/choice_text.hpp"
#include "runtime/openai/request.hpp"
#include "runtime/openai/tool_calls.hpp"

namespace millrace {

class Completion {
 public:
  // `receipt` names the interaction for feedback, empty where none is kept; further choices get ".1", ".2", ... after
  // it.
  Completion(CompletionRequest request, std::shared_ptr<const Tokenizer> tokenizer, std::string model, std::string id,
             std::string receipt);

  const CompletionRequest& request() const { return request_; }
  std::size_t choices() const { return choices_.size(); }
  const Tokens& prompt(std::size_t choice) const;
  Sampling sampling(std::size_t choice) const;  // each choice has a seed of its own
  std::string receipt(std::size_t choice) const;

  // The chat's prompt as the tokens its conversation was held in, instead of those its words would make.
  void go_on_from(Tokens prompt) { request_.prompts = {std::move(prompt)}; }

  // Takes the next tokens of a choice, and its end. Each returns what of the event stream is due now.
  std::string add(std::size_t choice, const SampledTokens& tokens);
  std::string finish(std::size_t choice, const FinishedTurn& turn);
  bool complete() const { return unfinished_ == 0; }

  nlohmann::json body() const;    // of the whole answer, once it is complete
  Version first_version() const;  // that of the first token sampled

  // A finished choice as it is remembered for feedback; whose it is and when it was is the caller's to add.
  Interaction interaction(std::size_t choice, const FinishedTurn& turn) const;
  std::string dialogue(const std::string& owner, std::size_t choice) const;  // its key with this answer at the end

 private:
  struct Choice {
    ChoiceText decoder;
    SampledTokens sampled;
    std::string text;           // all of it, tool calls included
    std::string finish_reason;  // empty: not finished
    Version last_weights = 0;
    AnswerParts parts;     // once it is finished
    std::size_t told = 0;  // bytes of the content that are out in the stream
  };

  nlohmann::json head(const char* object) const;
  std::string name_of(TokenId token) const;
  nlohmann::json tool_calls(std::size_t choice) const;
  nlohmann::json extension() const;
  nlohmann::json usage() const;
  nlohmann::json logprobs(const Choice& choice, std::size_t from) const;
  nlohmann::json ending(const Choice& choice) const;
  std::string chunk(std::size_t choice, std::size_t from, const std::string& text, bool last);

  CompletionRequest request_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string model_;
  std::string id_;
  std::string receipt_;
  std::int64_t created_;
  std::vector<Choice> choices_;
  std::vector<bool> begun_;  // its first stream message is out
  std::size_t unfinished_;
};

}  // namespace millrace
