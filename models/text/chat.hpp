#pragma once
// A conversation and its form as tokens, as the model's chat template has it (ChatML: SmolLM2, byte models).
#include <string>
#include <vector>

#include "models/text/tokenizer.hpp"

namespace millrace {

struct Message {
  std::string role;  // system | user | assistant | tool
  std::string content;
};

// The system message that a ChatML template opens with where the conversation has none; empty if it has no such text.
std::string default_system_of(const std::string& chat_template);

// Text as the template renders it, with the header of the assistant's answer at the end.
std::string render_chat(const std::vector<Message>& messages, const std::string& default_system);

// The same as tokens. Contents are encoded without control tokens: a message cannot fake the end of its turn.
Tokens encode_chat(const Tokenizer& tokenizer, const std::vector<Message>& messages);

// What comes between an assistant's turn (its end-of-turn token included) and its next one: an observation as a message
// and the header of the next answer. `turn_ended` is false where a limit cut the turn and its end must be written, too.
Tokens encode_observation(const Tokenizer& tokenizer, const Message& observation, bool turn_ended);

}  // namespace millrace
