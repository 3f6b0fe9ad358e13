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

int send_reward(const ClientCommand& command, const std::string& receipt, double reward) {
  if (receipt.empty()) return complain(failed, "there is no answer to reward yet");
  HttpCall call;
  call.method = "POST";
  call.target = "/v1/feedback";
  call.body = nlohmann::json{{"interaction_id", receipt}, {"reward", reward}}.dump();
  const auto answer = call_service(command, std::move(call));
  if (!answer) return complain(failed, answer.error().message);
  std::cerr << "thank you: it will be learned from" << std::endl;
  return done;
}

}  // namespace

int chat(const ClientCommand& command) {
  const bool interactive = isatty(STDIN_FILENO);
  if (interactive)
    std::cerr << "Talk to the policy. /up and /down reward its last answer, /new starts over, /quit ends." << std::endl;

  int code = done;
  auto messages = nlohmann::json::array();
  std::string receipt;  // of the last answer
  std::string line;
  while (true) {
    if (interactive) std::cerr << "> " << std::flush;
    if (!std::getline(std::cin, line) || line == "/quit") return code;
    if (line.empty()) continue;
    if (line == "/new") {
      messages.clear();
      continue;
    }
    if (line == "/up" || line == "/down") {
      code = send_reward(command, receipt, line == "/up" ? 1.0 : -1.0);
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
    const auto id = answer->headers.find("x-millrace-interaction-id");
    receipt = id == answer->headers.end() ? "" : id->second;
    std::cout << (command.json ? answer->body.dump() : text) << std::endl;
  }
}

}  // namespace millrace
