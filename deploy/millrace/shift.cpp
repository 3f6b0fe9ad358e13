#include <cstdio>
#include <filesystem>
#include <iostream>

#include "config/strict_json.hpp"
#include "deploy/millrace/client.hpp"
#include "deploy/millrace/console.hpp"

namespace millrace {
namespace {

// A file's document, or a name: the service looks that up itself.
expected<nlohmann::json> read_spec(const std::string& spec) {
  if (std::filesystem::is_regular_file(spec)) return read_json_file(spec);
  if (spec.find('/') != std::string::npos || spec.ends_with(".json")) {
    return fail(spec + ": no such file; give a spec's name (cute) or a file that holds a spec");
  }
  return nlohmann::json(spec);
}

int dry_run(const ShiftCommand& command, const nlohmann::json& spec) {
  HttpCall call;
  call.method = "POST";
  call.target = "/admin/v1/reward-spec/dry-run";
  call.headers = {{"Content-Type", "application/json"}};
  call.body = nlohmann::json{{"spec", spec}}.dump();
  const auto answer = call_service(command, call);
  if (!answer) return complain(failed, answer.error().message);
  const auto& body = answer->body;
  if (command.json) {
    std::cout << body.dump() << std::endl;
    return done;
  }
  std::cout << "On the last " << body.at("compared") << " trajectories the mean reward would go from "
            << body.at("mean_before") << " to " << body.at("mean_after") << "; rank correlation "
            << body.at("rank_correlation") << ".\n";
  for (const auto& warning : body.at("warnings")) std::cout << "Note: " << warning.get<std::string>() << "\n";
  for (const auto& example : body.at("examples")) {
    char columns[80];
    std::snprintf(columns, sizeof columns, "%6s  %7.3f -> %7.3f  ", example.at("id").dump().c_str(),
                  example.at("before").get<double>(), example.at("after").get<double>());
    std::cout << columns << shown(nlohmann::json(example.at("answer"))) << "\n";
  }
  std::cout << std::flush;
  return done;
}

}  // namespace

int shift(const ShiftCommand& command) {
  const auto spec = read_spec(command.spec);
  if (!spec) return complain(bad_use, spec.error().message);
  if (command.dry_run) return dry_run(command, *spec);

  HttpCall call;
  call.target = "/admin/v1/reward-spec";
  const auto before = call_service(command, call);
  if (!before) return complain(failed, before.error().message);

  // If-Match: two operators who shift at once do not overwrite each other unseen.
  const auto etag = before->headers.find("etag");
  if (etag == before->headers.end()) return complain(failed, "the service named no version of its reward spec (ETag)");
  nlohmann::json body = {{"spec", *spec}, {"in_flight", command.in_flight}};
  if (!command.why.empty()) body["why"] = command.why;
  if (command.after_s > 0) body["after_s"] = command.after_s;
  if (command.ramp_s > 0) body["ramp_s"] = command.ramp_s;
  call.method = "PUT";
  call.body = body.dump();
  call.headers = {{"Content-Type", "application/json"}, {"If-Match", etag->second}};
  const auto after = call_service(command, call);
  if (!after) return complain(failed, after.error().message);

  if (command.json) {
    std::cout << after->body.dump() << std::endl;
  } else {
    std::cout << "reward spec: " << before->body.value("name", "?") << " (version " << before->body.value("version", 0)
              << ") -> " << after->body.value("name", "?") << " (version " << after->body.value("version", 0) << ")"
              << (after->body.contains("pending") ? ", more is planned" : "") << std::endl;
  }
  return done;
}

}  // namespace millrace
