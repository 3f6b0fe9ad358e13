// Tokenizer and chat templates for scripts: one JSON object a line in, one out. fuzz_text.py compares what comes out
// with the Python libraries.
//   {"load": "tokenizer.json"}                               -> {"size": 151648}
//   {"encode": "text", "special": true}                      -> {"ids": [...]}
//   {"decode": [1, 2]}                                       -> {"text": "..."}
//   {"render": "template", "variables": {"messages": []}}    -> {"text": "..."} or {"error": "..."}
#include <iostream>
#include <optional>

#include <nlohmann/json.hpp>

#include "models/text/json_file.hpp"
#include "models/text/tokenizer_json.hpp"

namespace {

using nlohmann::ordered_json;
using namespace millrace;

ordered_json render(const ordered_json& request) {
  const auto parsed = jinja::Template::parse(request["render"].get<std::string>());
  if (!parsed) return {{"error", "refused: " + parsed.error().message}};
  std::vector<std::pair<std::string, jinja::Value>> variables;
  for (const auto& [name, value] : request["variables"].items()) {
    variables.emplace_back(name, jinja::value_of(value, MarkedText::quoted));
  }
  const auto text = parsed->render(variables);
  if (!text) return {{"error", text.error().message}};
  return {{"text", text->text}};
}

ordered_json answer(const ordered_json& request, std::optional<Tokenizer>& tokenizer) {
  if (request.contains("load")) {
    const auto file = read_json_object(request["load"].get<std::string>());
    if (!file) return {{"error", file.error().message}};
    auto vocabulary = read_tokenizer_json(*file);
    if (!vocabulary) return {{"error", vocabulary.error().message}};
    auto made = Tokenizer::make(std::move(*vocabulary));
    if (!made) return {{"error", made.error().message}};
    tokenizer.emplace(std::move(*made));
    return {{"size", tokenizer->size()}};
  }
  if (request.contains("render")) return render(request);
  if (request.contains("decode")) return {{"text", tokenizer.value().decode(request["decode"].get<Tokens>())}};
  const auto text = request["encode"].get<std::string>();
  const bool special = request.value("special", false);
  return {{"ids", special ? tokenizer.value().encode_template(text) : tokenizer.value().encode(text)}};
}

}  // namespace

int main() {
  std::optional<Tokenizer> tokenizer;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(ordered_json::parse(line), tokenizer).dump() << std::endl;
  }
}
