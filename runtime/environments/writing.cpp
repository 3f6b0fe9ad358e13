#include "runtime/environments/writing.hpp"

#include <algorithm>
#include <numeric>

#include "config/strict_json.hpp"
#include "runtime/environments/episode_mix.hpp"

namespace millrace {
namespace {

struct WritingTasks {
  std::string system;
  std::vector<std::string> forms;  // each holds one "{}" for the topic
  std::vector<std::string> topics;
};

using nlohmann::json;

expected<std::vector<std::string>> read_lines(const json& document, const char* key, const std::string& file) {
  const auto found = document.find(key);
  const bool ok = found != document.end() && found->is_array() && !found->empty() &&
                  std::all_of(found->begin(), found->end(), [](const auto& line) { return line.is_string(); });
  if (!ok) return fail(file + ": \"" + key + "\": expected a list of texts, at least one");
  return found->get<std::vector<std::string>>();
}

expected<WritingTasks> read_tasks(const std::string& file) {
  const auto document = read_json_file(file);
  if (!document) return tl::unexpected(document.error());
  if (!document->is_object()) return fail(file + R"(: expected an object with "system", "forms" and "topics")");
  for (const auto& [key, value] : document->items()) {
    if (key != "system" && key != "forms" && key != "topics") {
      return fail(file + ": unknown key \"" + key + R"(": expected "system", "forms" or "topics")");
    }
  }
  if (!document->contains("system") || !document->at("system").is_string()) {
    return fail(file + ": \"system\": expected a text, the system message");
  }
  auto forms = read_lines(*document, "forms", file);
  if (!forms) return tl::unexpected(forms.error());
  for (const std::string& form : *forms) {
    if (form.find("{}") == std::string::npos) return fail(file + ": form \"" + form + "\": expected {} for the topic");
  }
  auto topics = read_lines(*document, "topics", file);
  if (!topics) return tl::unexpected(topics.error());
  return WritingTasks{document->at("system").get<std::string>(), std::move(*forms), std::move(*topics)};
}

// Which of `count` pairs the episode takes: a new shuffle (Fisher-Yates) for every round of all pairs.
std::size_t pair_of(std::uint64_t episode, std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  EpisodeMix mix(episode / count);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[mix.below(i)]);
  return order[episode % count];
}

class Writing : public Environment {
 public:
  explicit Writing(std::shared_ptr<const WritingTasks> tasks) : tasks_(std::move(tasks)) {}

  expected<Task> reset(std::uint64_t episode) override {
    const std::size_t pair = pair_of(episode, tasks_->forms.size() * tasks_->topics.size());
    std::string text = tasks_->forms[pair % tasks_->forms.size()];
    text.replace(text.find("{}"), 2, tasks_->topics[pair / tasks_->forms.size()]);
    return Task{.prompt = {{"system", tasks_->system}, {"user", text}}, .text = text, .expected = ""};
  }

  expected<Observation> step(const std::string&) override { return Observation{}; }

 private:
  std::shared_ptr<const WritingTasks> tasks_;
};

}  // namespace

expected<EnvironmentFactory> make_writing(const EnvironmentSettings& settings) {
  auto tasks = read_tasks(settings.data.empty() ? "config/tasks/writing.json" : settings.data);
  if (!tasks) return tl::unexpected(tasks.error());
  auto shared = std::make_shared<const WritingTasks>(std::move(*tasks));
  return [shared] { return std::make_unique<Writing>(shared); };
}

}  // namespace millrace
