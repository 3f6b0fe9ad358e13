#include <iostream>

#include "deploy/millrace/client.hpp"
#include "deploy/millrace/console.hpp"

namespace millrace {

int status(const ClientCommand& command) {
  HttpCall call;
  call.target = "/admin/v1/status";
  const auto answer = call_service(command, call);
  if (!answer) return complain(failed, answer.error().message);
  if (command.json) {
    std::cout << answer->body.dump() << std::endl;
    return done;
  }
  for (const auto& [name, value] : answer->body.items()) {
    std::cout << name << ":";
    if (!value.is_object()) {
      std::cout << " " << value.dump();
    } else {
      for (const auto& [part, part_value] : value.items()) std::cout << "  " << part << " " << part_value.dump();
    }
    std::cout << "\n";
  }
  std::cout << std::flush;
  return done;
}

}  // namespace millrace
