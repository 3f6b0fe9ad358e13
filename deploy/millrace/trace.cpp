#include <cstdio>
#include <ctime>
#include <iostream>
#include <optional>

#include "deploy/millrace/client.hpp"
#include "deploy/millrace/console.hpp"
#include "runtime/ledger.hpp"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

expected<Json> from_ledger(const std::string& state_directory, std::uint64_t id) {
  const auto ledger = Ledger::open_read_only(state_directory);
  if (!ledger) return fail(ledger.error().message);
  const auto row = ledger->find(id);
  if (!row) return fail("trajectory " + std::to_string(id) + " is not in the ledger of " + state_directory);
  return Json(*row);
}

expected<Json> from_service(const ClientCommand& command, std::uint64_t id) {
  HttpCall call;
  call.target = "/admin/v1/trajectories/" + std::to_string(id);
  auto answer = call_service(command, call);
  if (!answer) return fail(answer.error().message);
  return std::move(answer->body);
}

double number(const Json& row, const char* key) { return row.at(key).is_number() ? row.at(key).get<double>() : 0.0; }

std::string time_of(double unix_seconds) {
  const auto whole = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  char all[48];
  std::snprintf(all, sizeof all, "%s.%03d UTC", text,
                static_cast<int>((unix_seconds - static_cast<double>(whole)) * 1000));
  return all;
}

void line(const char* stage, const std::string& when, const std::string& what) {
  char columns[64];
  std::snprintf(columns, sizeof columns, "  %-12s %12s  ", stage, when.c_str());
  std::cout << columns << what << "\n";
}

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", value);
  return text;
}

std::string score_of(const Json& row) {
  std::string text = row.at("reward_spec").get<std::string>() + "@" + row.at("reward_spec_version").dump() + ": " +
                     row.at("reward").dump();
  for (const Json& part : row.at("reward_parts")) {
    text +=
        ", " + part.at("name").get<std::string>() + " " + part.at("value").dump() + " x " + part.at("weight").dump();
  }
  return text;
}

void print(const Json& row) {
  const Json& spent = row.at("seconds");
  const double in_session = number(spent, "generate") + number(spent, "environment") + number(spent, "score");
  const auto outcome = row.at("outcome").get<std::string>();
  const auto reason = row.at("reason").get<std::string>();
  std::cout << "trajectory " << row.at("id") << " (" << row.at("environment").get<std::string>() << "): " << outcome
            << (reason.empty() ? "" : ": " + reason) << "\n";
  if (number(row, "created") > 0) std::cout << "  permit given " << time_of(number(row, "created")) << "\n";
  line("generate", seconds(number(spent, "generate")),
       row.at("turns").dump() + " turns, " + row.at("action_tokens").dump() + " of " + row.at("tokens").dump() +
           " tokens sampled, by versions " + row.at("policy_version_oldest").dump() + " to " +
           row.at("policy_version_newest").dump());
  line("environment", seconds(number(spent, "environment")), row.at("ending").get<std::string>());
  line("score", seconds(number(spent, "score")), score_of(row));
  line("accept", "", "as number " + row.at("position").dump() + " of the ledger");
  if (row.at("settled").is_number()) {
    line("wait", seconds(number(row, "settled") - number(row, "created") - in_session), "in queue and learners");
  } else {
    line("wait", "", "still queued");
  }
  if (row.at("step").is_number()) {
    line("learn", "", "batch " + row.at("step").dump() + ", place " + row.at("step_position").dump());
  }
  if (outcome == "trained") line("publish", "", "in version " + row.at("version").dump());
}

}  // namespace

int trace(const TraceCommand& command) {
  const auto folder = ledger_folder(command.config, command.state_dir);
  if (!folder) return complain(bad_use, folder.error().message);
  const auto row = folder->empty() ? from_service(command, command.id) : from_ledger(*folder, command.id);
  if (!row) return complain(failed, row.error().message);
  if (command.json) {
    std::cout << row->dump() << std::endl;
  } else {
    print(*row);
    std::cout << std::flush;
  }
  return done;
}

}  // namespace millrace
