#pragma once
// Tool calls in what a model wrote, in the two forms that most families are taught: <tool_call>{"name", "arguments"}
// </tool_call>, any number of them (Qwen, Hermes), or the whole answer as one {"name", "parameters"} (Llama 3).
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace millrace {

struct ToolCall {
  std::string name;
  std::string arguments;  // the text of a JSON object
};

struct AnswerParts {
  std::string content;  // what is left beside the calls
  std::vector<ToolCall> calls;
};

// `tools` as the request offered them. A call that is malformed, or of a tool that was not offered, stays text.
AnswerParts parse_tool_calls(const std::string& answer, const nlohmann::ordered_json& tools);

// Bytes of an answer so far that are certainly no part of a call.
std::size_t certain_text(const std::string& answer);

// A message's words with its calls, to know a conversation again by.
std::string words_with_calls(const std::string& content, const std::vector<ToolCall>& calls);

}  // namespace millrace
