#pragma once
// A conversation and its form as tokens, as the model's own chat template has it.
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/text/tokenizer.hpp"

namespace millrace {

struct Message {
  std::string role;  // system | user | assistant | tool
  std::string content;
};

// A conversation with all that templates know: what OpenAI's API and transformers' apply_chat_template take.
struct Conversation {
  nlohmann::ordered_json messages =
      nlohmann::ordered_json::array();     // role, content, reasoning_content, tool_calls, ...
  nlohmann::ordered_json tools = nullptr;  // an array of function descriptions, or null
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  // others: enable_thinking, date_string, ...
  bool add_generation_prompt = true;  // ends with the header of the assistant's answer
};

// The text that transformers would render. Errors: the model has no template; the template refuses the conversation.
expected<MarkedText> render_conversation(const Tokenizer& tokenizer, const Conversation& conversation);
expected<MarkedText> render_messages(const Tokenizer& tokenizer, const std::vector<Message>& messages);

// The same as tokens. No part of a message becomes a control token: it cannot fake the end of its turn.
expected<Tokens> encode_conversation(const Tokenizer& tokenizer, const Conversation& conversation);
expected<Tokens> encode_chat(const Tokenizer& tokenizer, const std::vector<Message>& messages);

// What comes between an assistant's turn (its end-of-turn token included) and its next one: an observation as a message
// and the header of the next answer. `turn_ended` is false where a limit cut the turn and its end must be written, too.
expected<Tokens> encode_observation(const Tokenizer& tokenizer, const Message& observation, bool turn_ended);

}  // namespace millrace
