#include <unistd.h>

#include <iostream>
#include <string>

#include "deploy/millrace/client.hpp"
#include "deploy/millrace/console.hpp"

namespace millrace {
namespace {

constexpr int answer_tokens = 128;
constexpr double answer_timeout_s = 600;  // a busy CPU shares itself between chat and training

HttpCall completion_call(const nlohmann::json& messages) {
  HttpCall call;
  call.method = "POST";
  call.target = "/v1/chat/completions";
  call.headers = {{"Content-Type", "application/json"}};
  call.body = nlohmann::json{{"messages", messages}, {"max_tokens", answer_tokens}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
  call.timeout_s = answer_timeout_s;
  return call;
}

}  // namespace

int chat(const ClientCommand& command) {
  const bool interactive = isatty(STDIN_FILENO);
  if (interactive) std::cerr << "Talk to the policy. /new starts over, /quit ends." << std::endl;

  int code = done;
  auto messages = nlohmann::json::array();
  std::string line;
  while (true) {
    if (interactive) std::cerr << "> " << std::flush;
    if (!std::getline(std::cin, line) || line == "/quit") return code;
    if (line.empty()) continue;
    if (line == "/new") {
      messages.clear();
      continue;
    }
    messages.push_back({{"role", "user"}, {"content", line}});
    const auto answer = call_service(command, completion_call(messages));
    if (!answer) {  // a full context, a service that restarts: the conversation goes on without this message
      code = complain(failed, answer.error().message);
      messages.erase(messages.size() - 1);
      continue;
    }

    const nlohmann::ordered_json::json_pointer content("/choices/0/message/content");
    if (!answer->body.contains(content) || !answer->body[content].is_string()) {
      return complain(failed, "the service's answer has no choices[0].message.content");
    }
    const auto text = answer->body[content].get<std::string>();
    messages.push_back({{"role", "assistant"}, {"content", text}});
    std::cout << (command.json ? answer->body.dump() : text) << std::endl;
  }
}

}  // namespace millrace
