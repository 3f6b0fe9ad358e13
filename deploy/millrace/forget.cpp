#include <iostream>

#include "deploy/millrace/client.hpp"
#include "deploy/millrace/console.hpp"

namespace millrace {
namespace {

// As it stands in a query.
std::string encoded(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    result += {'%', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 15]};
  }
  return result;
}

}  // namespace

int forget(const ClientCommand& command, const std::string& client) {
  HttpCall call;
  call.method = "DELETE";
  call.target = "/admin/v1/clients?client=" + encoded(client);
  const auto answer = call_service(command, call);
  if (!answer) return complain(failed, answer.error().message);
  if (command.json) {
    std::cout << answer->body.dump() << std::endl;
    return done;
  }
  std::cout << "deleted: " << answer->body["interactions"] << " conversations kept, " << answer->body["lessons"]
            << " of them rewarded\n";
  for (const auto& trajectory : answer->body["trajectories"]) {
    std::cout << "trajectory " << trajectory["id"] << ": " << trajectory["outcome"].get<std::string>();
    if (trajectory["outcome"] == "trained") std::cout << " into policy version " << trajectory["version"];
    std::cout << "\n";
  }
  std::cout << std::flush;
  return done;
}

}  // namespace millrace
