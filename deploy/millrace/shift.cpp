#include <filesystem>
#include <iostream>

#include "deploy/millrace/client.hpp"
#include "deploy/millrace/console.hpp"

namespace millrace {
namespace {

// A file's document as it stands, or {"spec": name}: the service looks the name up itself.
expected<std::string> request_body(const std::string& spec) {
  if (std::filesystem::is_regular_file(spec)) return read_text_file(spec);
  if (spec.find('/') != std::string::npos || spec.ends_with(".json")) {
    return fail(spec + ": no such file; give a spec's name (cute) or a file that holds a spec");
  }
  return nlohmann::json{{"spec", spec}}.dump();
}

}  // namespace

int shift(const ClientCommand& command, const std::string& spec) {
  const auto body = request_body(spec);
  if (!body) return complain(bad_use, body.error().message);

  HttpCall call;
  call.target = "/admin/v1/reward-spec";
  const auto before = call_service(command, call);
  if (!before) return complain(failed, before.error().message);

  // If-Match: two operators who shift at once do not overwrite each other unseen.
  const auto etag = before->headers.find("etag");
  if (etag == before->headers.end()) return complain(failed, "the service named no version of its reward spec (ETag)");
  call.method = "PUT";
  call.body = *body;
  call.headers = {{"Content-Type", "application/json"}, {"If-Match", etag->second}};
  const auto after = call_service(command, call);
  if (!after) return complain(failed, after.error().message);

  if (command.json) {
    std::cout << after->body.dump() << std::endl;
  } else {
    std::cout << "reward spec: " << before->body.value("name", "?") << " (version " << before->body.value("version", 0)
              << ") -> " << after->body.value("name", "?") << " (version " << after->body.value("version", 0) << ")"
              << std::endl;
  }
  return done;
}

}  // namespace millrace
