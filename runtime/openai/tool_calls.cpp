#include "runtime/openai/tool_calls.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

namespace millrace {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view opening = "<tool_call>";
constexpr std::string_view closing = "</tool_call>";
constexpr const char* white = " \t\r\n";

bool offered(const ordered_json& tools, const std::string& name) {
  return std::any_of(tools.begin(), tools.end(), [&](const ordered_json& tool) {
    return tool.at("function").at("name").get_ref<const std::string&>() == name;
  });
}

std::optional<ToolCall> call_in(std::string_view text, const ordered_json& tools) {
  const ordered_json call = ordered_json::parse(text, nullptr, false);
  if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return {};
  const char* key = call.contains("arguments") ? "arguments" : "parameters";
  const ordered_json arguments = call.value(key, ordered_json::object());
  const std::string name = call["name"];
  if (!arguments.is_object() || !offered(tools, name)) return {};
  return ToolCall{name, arguments.dump(-1, ' ', false, ordered_json::error_handler_t::replace)};
}

}  // namespace

AnswerParts parse_tool_calls(const std::string& answer, const ordered_json& tools) {
  AnswerParts parts;
  if (auto whole = call_in(answer, tools)) {
    parts.calls.push_back(std::move(*whole));
    return parts;
  }
  std::size_t at = 0;
  while (true) {
    const std::size_t begin = answer.find(opening, at);
    const std::size_t end = begin == std::string::npos ? begin : answer.find(closing, begin);
    if (end == std::string::npos) break;
    const std::size_t after = end + closing.size();
    const std::size_t inside = begin + opening.size();
    auto call = call_in(std::string_view(answer).substr(inside, end - inside), tools);
    parts.content += answer.substr(at, (call ? begin : after) - at);
    if (call) parts.calls.push_back(std::move(*call));
    at = after;
  }
  parts.content += answer.substr(at);
  if (!parts.calls.empty()) parts.content.resize(parts.content.find_last_not_of(white) + 1);
  return parts;
}

std::size_t certain_text(const std::string& answer) {
  const std::size_t first = answer.find_first_not_of(white);
  if (first == std::string::npos || answer[first] == '{') return 0;
  if (const std::size_t begin = answer.find(opening); begin != std::string::npos) {
    return std::min(begin, answer.find_last_not_of(white, begin == 0 ? 0 : begin - 1) + 1);
  }
  std::size_t certain = answer.size();
  for (std::size_t length = 1; length < opening.size() && length <= answer.size(); ++length) {
    if (answer.ends_with(opening.substr(0, length))) certain = answer.size() - length;
  }
  return std::min(certain, answer.find_last_not_of(white, certain == 0 ? 0 : certain - 1) + 1);
}

std::string words_with_calls(const std::string& content, const std::vector<ToolCall>& calls) {
  std::string words = content;
  for (const ToolCall& call : calls) words += "\n" + call.name + " " + call.arguments;
  return words;
}

}  // namespace millrace
