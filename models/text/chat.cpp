#include "models/text/chat.hpp"

namespace millrace {

Conversation conversation_of(const std::vector<Message>& messages) {
  Conversation conversation;
  for (const Message& message : messages) {
    conversation.messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  return conversation;
}

expected<MarkedText> render_conversation(const Tokenizer& tokenizer, const Conversation& conversation) {
  if (!tokenizer.chat_template()) return fail("the model has no chat template");
  std::vector<std::pair<std::string, jinja::Value>> variables;
  try {
    for (const auto& [name, token] : {std::pair("bos_token", tokenizer.bos()), {"eos_token", tokenizer.eos()}}) {
      if (token >= 0) variables.emplace_back(name, jinja::Value::of_template(tokenizer.spelling_of(token)));
    }
    variables.emplace_back("messages", jinja::value_of(conversation.messages, MarkedText::quoted));
    variables.emplace_back("tools", jinja::value_of(conversation.tools, MarkedText::quoted));
    variables.emplace_back("documents", jinja::None{});
    variables.emplace_back("add_generation_prompt", conversation.add_generation_prompt);
    for (const auto& [name, value] : conversation.variables.items()) {
      variables.emplace_back(name, jinja::value_of(value, MarkedText::quoted));
    }
  } catch (const jinja::Failure& failure) {
    return fail(failure.message);
  }
  auto text = tokenizer.chat_template()->render(variables);
  if (!text) return fail("chat template: " + text.error().message);
  return text;
}

expected<Tokens> encode_conversation(const Tokenizer& tokenizer, const Conversation& conversation) {
  const auto text = render_conversation(tokenizer, conversation);
  if (!text) return tl::unexpected(text.error());
  return tokenizer.encode_marked(*text);
}

expected<Tokens> encode_chat(const Tokenizer& tokenizer, const std::vector<Message>& messages) {
  return encode_conversation(tokenizer, conversation_of(messages));
}

expected<Tokens> encode_observation(const Tokenizer& tokenizer, const Message& observation, bool turn_ended) {
  // Templates say what a whole conversation looks like: what follows an answer is seen behind one that can be found.
  static const std::string answer = "3f6c1f0a9d";
  const auto text =
      render_conversation(tokenizer, conversation_of({{"user", "?"}, {"assistant", answer}, observation}));
  if (!text) return tl::unexpected(text.error());
  const std::size_t found = text->text.find(answer);
  if (found == std::string::npos) return fail("chat template: it does not show what the assistant has said");
  Tokens tokens = tokenizer.encode_marked(text->substr(found + answer.size()));
  const bool writes_end = !tokens.empty() && tokens.front() == tokenizer.eos();
  if (turn_ended && writes_end) tokens.erase(tokens.begin());
  return tokens;
}

}  // namespace millrace
