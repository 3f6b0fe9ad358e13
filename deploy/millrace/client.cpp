#include "deploy/millrace/client.hpp"

#include "deploy/millrace/console.hpp"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

std::string refusal(const HttpResponse& response, const Json& body) {
  std::string text = "the service answered " + std::to_string(response.status);
  const Json::json_pointer message("/error/message");
  if (body.contains(message) && body[message].is_string()) text = body[message].get<std::string>();
  if (response.status == 401) text += " (give the service's token with --token-file)";
  return text;
}

}  // namespace

expected<Answer> call_service(const ClientCommand& command, HttpCall call) {
  call.address = command.address;
  if (!command.token_file.empty()) {
    auto token = read_text_file(command.token_file);
    if (!token) return fail(token.error().message);
    token->erase(token->find_last_not_of(" \t\r\n") + 1);
    call.token = *token;
  }
  auto response = http_call(call);
  if (!response) return fail(response.error().message);
  const auto body = Json::parse(response->body, nullptr, false);
  if (response->status >= 400) return fail(refusal(*response, body));
  if (body.is_discarded()) {
    return fail(command.address + call.target + " did not answer with JSON: is this a Millrace service?");
  }
  return Answer{body, response->headers};
}

expected<std::string> ledger_folder(const std::string& config, const std::string& state_directory) {
  if (config.empty()) return state_directory;
  const auto settings = load_program_settings(config, {});
  if (!settings) return tl::unexpected(settings.error());
  return settings->state.directory;
}

}  // namespace millrace
