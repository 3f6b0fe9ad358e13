#include "models/text/chat.hpp"

namespace millrace {

namespace {

using Variables = std::vector<std::pair<std::string, jinja::Value>>;

jinja::Value value_of(const Message& message) {
  const auto quoted = [](std::string text) { return jinja::Value(MarkedText(std::move(text), MarkedText::quoted)); };
  static const jinja::Value role = quoted("role"), content = quoted("content");
  jinja::Dict dict;
  dict.entries.reserve(2);
  dict.entries.emplace_back(role, quoted(message.role));
  dict.entries.emplace_back(content, quoted(message.content));
  return dict;
}

// What every conversation brings to its template.
Variables variables_of(const Tokenizer& tokenizer, jinja::Value messages, jinja::Value tools, bool generation_prompt) {
  Variables variables;
  variables.reserve(6);
  for (const auto& [name, token] : {std::pair("bos_token", tokenizer.bos()), {"eos_token", tokenizer.eos()}}) {
    if (token >= 0) variables.emplace_back(name, jinja::Value::of_template(tokenizer.spelling_of(token)));
  }
  variables.emplace_back("messages", std::move(messages));
  variables.emplace_back("tools", std::move(tools));
  variables.emplace_back("documents", jinja::None{});
  variables.emplace_back("add_generation_prompt", generation_prompt);
  return variables;
}

expected<MarkedText> render(const Tokenizer& tokenizer, Variables variables) {
  if (!tokenizer.chat_template()) return fail("the model has no chat template");
  auto text = tokenizer.chat_template()->render(std::move(variables));
  if (!text) return fail("chat template: " + text.error().message);
  return text;
}

}  // namespace

expected<MarkedText> render_conversation(const Tokenizer& tokenizer, const Conversation& conversation) {
  const auto quoted = [](const nlohmann::ordered_json& json) { return jinja::value_of(json, MarkedText::quoted); };
  Variables variables;
  try {
    variables = variables_of(tokenizer, quoted(conversation.messages), quoted(conversation.tools),
                             conversation.add_generation_prompt);
    for (const auto& [name, value] : conversation.variables.items()) variables.emplace_back(name, quoted(value));
  } catch (const jinja::Failure& failure) {
    return fail(failure.message);
  }
  return render(tokenizer, std::move(variables));
}

expected<MarkedText> render_messages(const Tokenizer& tokenizer, const std::vector<Message>& messages) {
  jinja::List list;
  list.items.reserve(messages.size());
  for (const Message& message : messages) list.items.push_back(value_of(message));
  return render(tokenizer, variables_of(tokenizer, std::move(list), jinja::None{}, true));
}

expected<Tokens> encode_conversation(const Tokenizer& tokenizer, const Conversation& conversation) {
  return render_conversation(tokenizer, conversation).map([&](const auto& text) {
    return tokenizer.encode_marked(text);
  });
}

expected<Tokens> encode_chat(const Tokenizer& tokenizer, const std::vector<Message>& messages) {
  return render_messages(tokenizer, messages).map([&](const auto& text) { return tokenizer.encode_marked(text); });
}

expected<Tokens> encode_observation(const Tokenizer& tokenizer, const Message& observation, bool turn_ended) {
  // Templates say what a whole conversation looks like: what follows an answer is seen behind one that can be found.
  static const std::string answer = "3f6c1f0a9d";
  const auto text = render_messages(tokenizer, {{"user", "?"}, {"assistant", answer}, observation});
  if (!text) return tl::unexpected(text.error());
  const std::size_t found = text->text.find(answer);
  if (found == std::string::npos) return fail("chat template: it does not show what the assistant has said");
  Tokens tokens = tokenizer.encode_marked(text->substr(found + answer.size()));
  const bool writes_end = !tokens.empty() && tokens.front() == tokenizer.eos();
  if (turn_ended && writes_end) tokens.erase(tokens.begin());
  return tokens;
}

}  // namespace millrace
