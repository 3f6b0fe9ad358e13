#include "models/text/chat.hpp"

#include <string_view>

namespace millrace {
namespace {

// ChatML: <|im_start|>ROLE, a line break, the content, <|im_end|>, a line break.
constexpr std::string_view message_start = "<|im_start|>";
constexpr std::string_view message_end = "<|im_end|>";
constexpr std::string_view answer_header = "<|im_start|>assistant\n";

void append(Tokens& tokens, const Tokens& more) { tokens.insert(tokens.end(), more.begin(), more.end()); }

// Role and content are encoded as one text, as the template's own text would be: only the markers are control tokens.
void append_message(const Tokenizer& tokenizer, const Message& message, Tokens& tokens) {
  append(tokens, tokenizer.encode_template(message_start));
  append(tokens, tokenizer.encode(message.role + '\n' + message.content));
  append(tokens, tokenizer.encode_template(std::string(message_end) + '\n'));
}

bool wants_default_system(const std::vector<Message>& messages, const std::string& default_system) {
  return !default_system.empty() && !messages.empty() && messages.front().role != "system";
}

}  // namespace

std::string default_system_of(const std::string& chat_template) {
  for (const std::string_view header : {"<|im_start|>system\n", "<|im_start|>system\\n"}) {
    const std::size_t found = chat_template.find(header);
    if (found == std::string::npos) continue;
    const std::size_t begin = found + header.size();
    const std::string text = chat_template.substr(begin, chat_template.find(message_end, begin) - begin);
    // A quotation mark ends the literal: then the content is an expression, and there is no default.
    if (text.find('\'') == std::string::npos) return text;
  }
  return {};
}

std::string render_chat(const std::vector<Message>& messages, const std::string& default_system) {
  std::string text;
  const auto append_text = [&](std::string_view role, std::string_view content) {
    text.append(message_start).append(role).append("\n").append(content).append(message_end).append("\n");
  };
  if (wants_default_system(messages, default_system)) append_text("system", default_system);
  for (const Message& message : messages) append_text(message.role, message.content);
  return text.append(answer_header);
}

Tokens encode_chat(const Tokenizer& tokenizer, const std::vector<Message>& messages) {
  Tokens tokens;
  const std::string default_system = default_system_of(tokenizer.chat_template());
  if (wants_default_system(messages, default_system)) append_message(tokenizer, {"system", default_system}, tokens);
  for (const Message& message : messages) append_message(tokenizer, message, tokens);
  append(tokens, tokenizer.encode_template(answer_header));
  return tokens;
}

Tokens encode_observation(const Tokenizer& tokenizer, const Message& observation, bool turn_ended) {
  Tokens tokens = tokenizer.encode_template(turn_ended ? "\n" : std::string(message_end) + '\n');
  append_message(tokenizer, observation, tokens);
  append(tokens, tokenizer.encode_template(answer_header));
  return tokens;
}

}  // namespace millrace
