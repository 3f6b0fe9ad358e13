#include <algorithm>
#include <cmath>
#include <set>

#include "config/strict_json.hpp"
#include "runtime/rewards/kinds.hpp"

namespace millrace {

// 1 - exp(-n / 2): 0, 0.39, 0.63, 0.78, ... Words are compared whole; symbols like "!" count by presence.
expected<PartFunction> make_style_words(const nlohmann::json& part) {
  const auto list = part.find("words");
  if (list == part.end() || !list->is_array() || list->empty()) {
    return fail("\"words\": expected a list of words or symbols, at least one");
  }
  std::set<std::string> style_words, symbols;
  for (const auto& entry : *list) {
    const std::string text = entry.is_string() ? lower_case(entry.get<std::string>()) : "";
    const bool word = words_of(text) == std::vector{text};
    const bool symbol = !text.empty() && words_of(text).empty() && text.find_first_of(" \t\r\n") == std::string::npos;
    if ((!word && !symbol) || text != entry.get<std::string>()) {
      return fail("\"words\": " + shown(entry) + ": expected one lower-case word, or a symbol like \"!\"");
    }
    if (!(word ? style_words : symbols).insert(text).second) {
      return fail("\"words\": " + shown(entry) + " stands twice: keep one of them");
    }
  }
  return [style_words, symbols](const std::string& answer, const std::string&) {
    const std::vector<std::string> words = words_of(answer);
    const std::set<std::string> present(words.begin(), words.end());
    const auto n = std::count_if(style_words.begin(), style_words.end(),
                                 [&](const std::string& word) { return present.count(word) > 0; }) +
                   std::count_if(symbols.begin(), symbols.end(),
                                 [&](const std::string& symbol) { return answer.find(symbol) != std::string::npos; });
    return 1.0 - std::exp(-static_cast<double>(n) / 2.0);
  };
}

}  // namespace millrace
