#pragma once
// Requests of the OpenAI API in vLLM's dialect (chat and text completions), read strictly: what is known must be right,
// what would change the answer and is not served is refused, everything else is ignored as other servers do.
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/expected.hpp"
#include "models/decoder.hpp"
#include "models/text/chat.hpp"

namespace millrace {

inline constexpr const char* reference_model = "reference";  // "model" of who wants the policy that was loaded

struct CompletionRequest {
  bool chat = true;
  bool reference = false;
  std::vector<Message> messages;  // of a chat, tool calls as part of the words: to know the conversation again by
  nlohmann::ordered_json tools;   // that the answer may call; null: none
  std::vector<Tokens> prompts;    // of text completions: one answer each, times n; of a chat its one prompt
  Sampling sampling;
  int n = 1;  // answers a prompt
  bool stream = false;
  bool include_usage = false;  // at the end of a stream
  bool logprobs = false;
  bool return_token_ids = false;
  bool tokens_as_ids = false;  // logprobs name tokens "token_id:123"
  std::string user;            // whose request it is, as the client says
};

struct BadRequest {
  std::string message;
  std::string param;
};

// The tokenizer turns texts into prompts; prompts longer than max_context are the decoder's to refuse.
// The seed of a request that names none is random.
using ParsedRequest = tl::expected<CompletionRequest, BadRequest>;
ParsedRequest parse_chat_request(const nlohmann::ordered_json& body, const Tokenizer& tokenizer, int max_context);
ParsedRequest parse_text_request(const nlohmann::ordered_json& body, const Tokenizer& tokenizer);

}  // namespace millrace
