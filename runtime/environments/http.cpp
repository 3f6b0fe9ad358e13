#include "runtime/environments/http.hpp"

#include "runtime/environments/remote_step.hpp"
#include "runtime/http_client.hpp"

namespace millrace {
namespace {

using nlohmann::json;

struct Server {
  std::string url;
  HttpUrl at;
  double timeout_s = 0;
};

class HttpEnvironment : public Environment {
 public:
  explicit HttpEnvironment(std::shared_ptr<const Server> server) : server_(std::move(server)) {}
  ~HttpEnvironment() override {
    if (!session_.is_null()) static_cast<void>(ask("/close", {{"session", session_}}));
  }

  expected<Task> reset(std::uint64_t episode) override {
    const auto answer = ask("/reset", {{"episode", episode}});
    if (!answer) return tl::unexpected(answer.error());
    auto task = named(task_of(*answer));
    if (task) session_ = answer->value("session", json());
    return task;
  }

  expected<Observation> step(const std::string& action) override {
    const auto answer = ask("/step", {{"session", session_}, {"action", action}});
    if (!answer) return tl::unexpected(answer.error());
    auto observation = named(observation_of(*answer));
    if (observation && observation->over) session_ = {};
    return observation;
  }

 private:
  expected<json> ask(const std::string& call, const json& question) const {
    HttpCall request;
    request.address = server_->at.address;
    request.method = "POST";
    request.target = server_->at.path + call;
    request.body = question.dump(-1, ' ', false, json::error_handler_t::replace);
    request.timeout_s = server_->timeout_s;
    const auto response = http_call(request);
    if (!response) return tl::unexpected(response.error());
    if (response->status != 200) return fail(server_->url + call + " answered " + std::to_string(response->status));
    return json::parse(response->body, nullptr, false);  // what is no JSON is no object either
  }

  template <class T>
  expected<T> named(expected<T> result) const {
    if (!result) return fail(server_->url + ": " + result.error().message);
    return result;
  }

  std::shared_ptr<const Server> server_;
  json session_;  // null: none is open
};

}  // namespace

expected<EnvironmentFactory> make_http_environment(const EnvironmentSettings& settings) {
  const auto at = parse_url(settings.url);
  if (!at) return fail("\"environment.url\": http needs the server's URL: " + at.error().message);
  auto server = std::make_shared<const Server>(Server{settings.url, *at, settings.step_timeout_s});
  return [server] { return std::make_unique<HttpEnvironment>(server); };
}

}  // namespace millrace
