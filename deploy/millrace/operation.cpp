// pause, resume, drain, checkpoint, rollback: a POST each, and what came of it.
#include <iostream>

#include "deploy/millrace/client.hpp"
#include "deploy/millrace/console.hpp"

namespace millrace {

int operation(const ClientCommand& command, const std::string& name, const std::string& body) {
  HttpCall call;
  call.method = "POST";
  call.target = "/admin/v1/" + name;
  call.body = body;
  call.headers = {{"Content-Type", "application/json"}};
  const auto answer = call_service(command, call);
  if (!answer) return complain(failed, answer.error().message);
  if (command.json) {
    std::cout << answer->body.dump() << std::endl;
    return done;
  }
  const char* separator = "";
  for (const auto& [key, value] : answer->body.items()) {
    std::cout << separator << key << ": " << (value.is_string() ? value.get<std::string>() : value.dump());
    separator = "  ";
  }
  std::cout << std::endl;
  return done;
}

}  // namespace millrace
