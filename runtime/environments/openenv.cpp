#include "runtime/environments/openenv.hpp"

#include <cmath>
#include <cstdlib>
#include <optional>

#include <nlohmann/json.hpp>

#include "runtime/websocket_client.hpp"

namespace millrace {
namespace {

using nlohmann::json;

struct Setup {
  std::string url;
  json action;
  std::string observation;
  double timeout_s = 0;
};

// The template with the policy's words in the place of "$text" and "$number". None: a number is asked for, none is
// there.
std::optional<json> fill(const json& form, const std::string& text) {
  if (form == "$text") return text;
  if (form == "$number") {
    const std::size_t begin = text.find_first_of("0123456789");
    if (begin == std::string::npos) return std::nullopt;
    const long long value = std::strtoll(text.c_str() + begin, nullptr, 10);
    return begin > 0 && text[begin - 1] == '-' ? -value : value;
  }
  if (!form.is_structured()) return form;
  json result = form;
  for (auto& entry : result) {
    auto filled = fill(entry, text);
    if (!filled) return std::nullopt;
    entry = std::move(*filled);
  }
  return result;
}

class OpenEnv : public Environment {
 public:
  explicit OpenEnv(std::shared_ptr<const Setup> setup) : setup_(std::move(setup)) {}

  expected<Task> reset(std::uint64_t episode) override {
    auto socket = WebSocketClient::connect(setup_->url, setup_->timeout_s);
    if (!socket) return tl::unexpected(socket.error());
    socket_.emplace(std::move(*socket));
    const auto answer = ask({{"type", "reset"}, {"data", {{"seed", episode & 0x7FFFFFFF}}}});
    if (!answer) return tl::unexpected(answer.error());
    const std::string text = words_of(*answer);
    return Task{.prompt = {{"user", text}}, .text = text, .expected = ""};
  }

  expected<Observation> step(const std::string& action) override {
    const auto filled = fill(setup_->action, action);
    if (!filled) {  // an action that is none: the episode goes on, as with any other bad move
      return Observation{.over = false, .truncated = false, .message = {"user", "Write a whole number."}, .reward = 0};
    }
    const auto answer = ask({{"type", "step"}, {"data", *filled}});
    if (!answer) return tl::unexpected(answer.error());
    Observation observation;
    observation.over = answer->value("done", false);
    observation.truncated = observation.over && truncated(*answer);
    const json reward = answer->value("reward", json());
    observation.reward = reward.is_number() ? reward.get<double>() : 0;
    if (!std::isfinite(observation.reward)) return fail(setup_->url + ": its reward is not finite");
    if (!observation.over) observation.message = {"user", words_of(*answer)};
    return observation;
  }

 private:
  // {"observation", "reward", "done"} of the next answer.
  expected<json> ask(const json& question) {
    const std::string text = question.dump(-1, ' ', false, json::error_handler_t::replace);
    const auto answer =
        socket_->send(text, setup_->timeout_s).and_then([&] { return socket_->receive(setup_->timeout_s); });
    if (!answer) return tl::unexpected(answer.error());
    const json document = json::parse(*answer, nullptr, false);
    if (!document.is_object()) return fail(setup_->url + ": its answer is not a JSON object");
    const json data = document.value("data", json::object());
    if (document.value("type", "") == "observation" && data.is_object()) return data;
    return fail(setup_->url + ": " + data.dump(-1, ' ', false, json::error_handler_t::replace));
  }

  // OpenEnv has one flag; environments that know more say so in the observation or its metadata.
  static bool truncated(const json& answer) {
    const json observation = answer.value("observation", json::object());
    if (!observation.is_object()) return false;
    const json metadata = observation.value("metadata", json::object());
    return observation.value("truncated", json(false)) == true ||
           (metadata.is_object() && metadata.value("truncated", json(false)) == true);
  }

  std::string words_of(const json& answer) const {
    const json observation = answer.value("observation", json());
    const json named = observation.is_object() && observation.contains(setup_->observation)
                           ? observation[setup_->observation]
                           : observation;
    return named.is_string() ? named.get<std::string>() : named.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  std::shared_ptr<const Setup> setup_;
  std::optional<WebSocketClient> socket_;
};

}  // namespace

expected<EnvironmentFactory> make_openenv(const EnvironmentSettings& settings) {
  if (settings.url.empty()) return fail("\"environment.url\": openenv needs the server's ws://HOST:PORT/ws");
  auto setup = std::make_shared<Setup>();
  setup->url = settings.url;
  setup->observation = settings.observation;
  setup->timeout_s = settings.step_timeout_s;
  setup->action = json::parse(settings.action, nullptr, false);
  if (!setup->action.is_object())
    return fail("\"environment.action\": expected a JSON object, such as {\"message\": \"$text\"}");
  return [setup] { return std::make_unique<OpenEnv>(setup); };
}

}  // namespace millrace
