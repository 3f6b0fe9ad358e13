#include <cstdio>
#include <iostream>
#include <optional>

#include "deploy/millrace/client.hpp"
#include "deploy/millrace/console.hpp"
#include "runtime/ledger.hpp"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

expected<Json> from_ledger(const TrajectoriesCommand& command, const std::string& state_directory) {
  const auto ledger = Ledger::open_read_only(state_directory);
  if (!ledger) return fail(ledger.error().message);
  const auto state = command.state.empty() ? std::nullopt : std::optional(command.state);
  return Json{{"trajectories", ledger->list(state, command.limit)}};
}

expected<Json> from_service(const TrajectoriesCommand& command) {
  HttpCall call;
  call.target = "/admin/v1/trajectories?limit=" + std::to_string(command.limit);
  if (!command.state.empty()) call.target += "&state=" + command.state;
  auto answer = call_service(command, call);
  if (!answer) return fail(answer.error().message);
  return std::move(answer->body);
}

// `width` columns of the text on one line; never cut inside a UTF-8 character.
std::string excerpt(std::string text, std::size_t width) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) c = ' ';
  }
  if (text.size() <= width) return text;
  while (width > 0 && (text[width] & 0xC0) == 0x80) --width;
  return text.substr(0, width) + "...";
}

std::string versions_of(const Json& row) {
  const auto oldest = row.at("policy_version_oldest").dump();
  const auto newest = row.at("policy_version_newest").dump();
  return oldest == newest ? oldest : oldest + "-" + newest;
}

void print_row(const Json& row) {
  char columns[160];
  const auto reward = row.at("reward").is_number() ? row.at("reward").get<double>() : 0.0;
  std::snprintf(columns, sizeof columns, "%6s  %-12s  %8s  %8.4f  %-16s  ", row.at("id").dump().c_str(),
                row.at("outcome").get<std::string>().c_str(), versions_of(row).c_str(), reward,
                (row.at("reward_spec").get<std::string>() + "@" + row.at("reward_spec_version").dump()).c_str());
  std::cout << columns << excerpt(row.at("answer").get<std::string>(), 60) << "\n";
}

}  // namespace

int trajectories(const TrajectoriesCommand& command) {
  const auto folder = ledger_folder(command.config, command.state_dir);
  if (!folder) return complain(bad_use, folder.error().message);
  const auto listed = folder->empty() ? from_service(command) : from_ledger(command, *folder);
  if (!listed) return complain(failed, listed.error().message);

  if (command.json) {
    std::cout << listed->dump() << std::endl;
    return done;
  }
  std::cout << "    id  outcome       policies    reward  reward spec       answer\n";
  for (const auto& row : listed->at("trajectories")) print_row(row);
  std::cout << std::flush;
  return done;
}

}  // namespace millrace
