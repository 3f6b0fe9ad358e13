#pragma once
// A call to a running service as the client commands make it: with its token, JSON both ways, refusals as errors.
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "config/expected.hpp"
#include "deploy/millrace/commands.hpp"
#include "runtime/http_client.hpp"

namespace millrace {

struct Answer {
  nlohmann::ordered_json body;
  std::map<std::string, std::string> headers;  // names in lower case
};

// `call` needs method, target and what is special about it; address and token come from the command.
// Errors: token file unreadable, no service there, any status from 400 on (with the service's own message).
expected<Answer> call_service(const ClientCommand& command, HttpCall call);

// The folder whose ledger a command is to read by itself: that of a config, if one is named, else `state_directory`;
// empty: the service is asked. Error: the config's.
expected<std::string> ledger_folder(const std::string& config, const std::string& state_directory);

}  // namespace millrace
