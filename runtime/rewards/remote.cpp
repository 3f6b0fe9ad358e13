#include "runtime/rewards/remote.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <thread>

#include "runtime/http_client.hpp"

namespace millrace {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_remembered = 100000;  // judgements
constexpr double longest_pause_s = 5;            // between two attempts; it doubles from 0.1 s

struct Endpoint {
  HttpUrl at;
  std::string token;
  double timeout_s = 30;
  int retries = 2;
};

// A text that has to be there.
expected<std::string> text_of(const json& part, const char* key) {
  const auto found = part.find(key);
  if (found == part.end() || !found->is_string() || found->get_ref<const std::string&>().empty()) {
    return fail(std::string("\"") + key + "\": expected a text");
  }
  return found->get<std::string>();
}

expected<Endpoint> endpoint_of(const json& part) {
  const auto url = text_of(part, "url");
  if (!url) return tl::unexpected(url.error());
  const auto at = parse_url(*url);
  if (!at) return fail("\"url\": " + at.error().message);
  Endpoint endpoint;
  endpoint.at = *at;
  const json timeout = part.value("timeout_s", json(30));
  if (!timeout.is_number() || !(timeout.get<double>() > 0 && timeout.get<double>() <= 3600)) {
    return fail("\"timeout_s\": expected seconds above 0");
  }
  endpoint.timeout_s = timeout;
  const json retries = part.value("retries", json(2));
  if (!retries.is_number_integer() || retries < 0 || retries > 10) return fail("\"retries\": expected 0 to 10");
  endpoint.retries = retries;
  if (part.contains("token_file")) {
    const auto file = text_of(part, "token_file");
    if (!file) return tl::unexpected(file.error());
    std::ifstream stream(*file);
    if (!(stream >> endpoint.token)) return fail("\"token_file\": " + *file + " is missing or empty");
  }
  return endpoint;
}

double seconds_until(Clock::time_point end) { return std::chrono::duration<double>(end - Clock::now()).count(); }

// Asks until there is an answer of 200, what was asked is wrong (4xx), or the time or the retries are used up.
expected<json> ask(const Endpoint& endpoint, const std::string& path, const json& question) {
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(endpoint.timeout_s));
  HttpCall call;
  call.address = endpoint.at.address;
  call.method = "POST";
  call.target = path.empty() ? "/" : path;
  call.token = endpoint.token;
  call.body = question.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string failure;
  for (int attempt = 0; attempt <= endpoint.retries; ++attempt) {
    if (attempt > 0) {
      const double pause = std::min({std::ldexp(0.1, attempt - 1), longest_pause_s, seconds_until(end) / 2});
      if (pause > 0) std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    }
    call.timeout_s = seconds_until(end);
    if (call.timeout_s <= 0) break;
    const auto response = http_call(call);
    if (!response) {
      failure = response.error().message;
      continue;
    }
    if (response->status == 200) {
      json answer = json::parse(response->body, nullptr, false);
      if (answer.is_object()) return answer;
      return fail(endpoint.at.address + ": its answer is not a JSON object");
    }
    failure = endpoint.at.address + " answered " + std::to_string(response->status);
    if (response->status < 500 && response->status != 429) return fail(failure);
  }
  return fail(failure.empty() ? endpoint.at.address + ": timeout" : failure);
}

expected<double> finite(const json& value, const std::string& from) {
  if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
  return fail(from + ": its reward is not a finite number");  // a NaN arrives as null, an infinity as nothing at all
}

// The number that ends the judge's words, from 0 to 10.
expected<double> grade_in(const std::string& words) {
  static const std::regex number("[0-9]+(\\.[0-9]+)?");
  std::string last;
  for (std::sregex_iterator found(words.begin(), words.end(), number), end; found != end; ++found) last = found->str();
  if (last.empty() || last.size() > 8) return fail("the judge gave no number: " + words.substr(0, 100));
  const double grade = std::stod(last);
  if (grade > 10) return fail("the judge's number is above 10: " + last);
  return grade / 10;
}

// Judgements that were made before.
class Memory {
 public:
  std::optional<double> find(const std::string& question) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(question);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }
  void keep(const std::string& question, double grade) {
    const std::lock_guard lock(mutex_);
    if (known_.size() >= most_remembered) known_.clear();
    known_[question] = grade;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, double> known_;
};

}  // namespace

expected<RemoteFunction> make_http(const json& part) {
  const auto endpoint = endpoint_of(part);
  if (!endpoint) return tl::unexpected(endpoint.error());
  const json shape = part.value("shape", json("verify"));
  if (shape != "verify" && shape != "rewards") return fail("\"shape\": expected \"verify\" or \"rewards\"");
  return [endpoint = *endpoint, verify = shape == "verify"](const ScoredAnswer& scored) -> expected<double> {
    if (verify) {
      const json message = {{"type", "message"},
                            {"role", "assistant"},
                            {"content", {{{"type", "output_text"}, {"text", scored.answer}}}}};
      const auto answer = ask(endpoint, endpoint.at.path,
                              {{"responses_create_params", {{"input", {{{"role", "user"}, {"content", scored.task}}}}}},
                               {"response", {{"output", {message}}, {"output_text", scored.answer}}},
                               {"expected_answer", scored.expected_answer}});
      if (!answer) return tl::unexpected(answer.error());
      return finite(answer->value("reward", json()), endpoint.at.address);
    }
    const auto answer = ask(
        endpoint, endpoint.at.path,
        {{"query", {scored.task + scored.answer}}, {"prompts", {scored.task}}, {"labels", {scored.expected_answer}}});
    if (!answer) return tl::unexpected(answer.error());
    const json rewards = answer->value("rewards", json());
    return finite(rewards.is_array() && rewards.size() == 1 ? rewards[0] : json(), endpoint.at.address);
  };
}

expected<RemoteFunction> make_judge(const json& part) {
  const auto endpoint = endpoint_of(part);
  if (!endpoint) return tl::unexpected(endpoint.error());
  const auto model = text_of(part, "model");
  if (!model) return tl::unexpected(model.error());
  const auto rubric = text_of(part, "rubric");
  if (!rubric) return tl::unexpected(rubric.error());
  const std::string rules =
      *rubric + "\n\nGive the answer a number from 0 (fails) to 10 (perfect). End with the number.";
  return [endpoint = *endpoint, model = *model, rules,
          memory = std::make_shared<Memory>()](const ScoredAnswer& scored) -> expected<double> {
    std::string words = "Task:\n" + scored.task + "\n\nAnswer:\n" + scored.answer;
    if (!scored.expected_answer.empty()) words += "\n\nRight answer:\n" + scored.expected_answer;
    if (const auto known = memory->find(words)) return *known;
    const auto answer =
        ask(endpoint, endpoint.at.path + "/chat/completions",
            {{"model", model},
             {"temperature", 0},
             {"messages", {{{"role", "system"}, {"content", rules}}, {{"role", "user"}, {"content", words}}}}});
    if (!answer) return tl::unexpected(answer.error());
    const json::json_pointer content("/choices/0/message/content");
    if (!answer->contains(content) || !(*answer)[content].is_string()) return fail("the judge gave no answer");
    const auto grade = grade_in((*answer)[content].get<std::string>());
    if (grade) memory->keep(words, *grade);
    return grade;
  };
}

}  // namespace millrace
