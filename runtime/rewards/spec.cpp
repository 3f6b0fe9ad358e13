#include <algorithm>
#include <filesystem>
#include <future>
#include <limits>
#include <set>

#include "config/nearest.hpp"
#include "config/strict_json.hpp"
#include "runtime/reward.hpp"
#include "runtime/rewards/kinds.hpp"

namespace millrace {

struct RewardSpec::Part {
  std::string name;
  double weight;
  PartFunction value;     // of a part that is computed here
  RemoteFunction ask;     // of one that asks somebody else
  bool may_fail = false;  // then the score goes without it
};

namespace {

using nlohmann::json;

struct Kind {
  std::string name;
  std::vector<std::string> keys;  // beside name, kind and weight
  expected<PartFunction> (*make)(const json& part);
  expected<RemoteFunction> (*make_remote)(const json& part) = nullptr;  // instead of make
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table = {
      {"style_words", {"words"}, make_style_words},
      {"repetition", {"above"}, make_repetition},
      {"exact_answer", {}, make_exact_answer},
      {"letter_share", {"letters"}, make_letter_share},
      {"http", {"url", "shape", "timeout_s", "retries", "token_file", "on_failure"}, nullptr, make_http},
      {"judge", {"url", "model", "rubric", "timeout_s", "retries", "token_file", "on_failure"}, nullptr, make_judge}};
  return table;
}

constexpr double largest_weight = 1e6;

// Names become file names and labels.
bool is_name(const json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  constexpr const char* allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !text.empty() && text.size() <= 64 && text.find_first_not_of(allowed) == std::string::npos;
}

// What is wrong with the keys of an object; empty = nothing.
std::string wrong_key(const json& object, const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return "unknown key \"" + key + "\": did you mean \"" + nearest(key, known) + "\"?";
    }
  }
  return "";
}

expected<const Kind*> kind_of(const json& part) {
  const auto given = part.find("kind");
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) {
    if (given != part.end() && *given == kind.name) return &kind;
    names.push_back(kind.name);
  }
  if (given == part.end() || !given->is_string()) return fail("\"kind\": expected a text like \"" + names[0] + "\"");
  return fail("\"kind\" is " + shown(*given) + ": did you mean \"" + nearest(given->get<std::string>(), names) + "\"?");
}

expected<double> weight_of(const json& part) {
  const auto weight = part.find("weight");
  if (weight == part.end()) return fail("\"weight\" is missing: expected a number from -1e6 to 1e6");
  const bool ok =
      weight->is_number() && weight->get<double>() >= -largest_weight && weight->get<double>() <= largest_weight;
  if (!ok) return fail("\"weight\" is " + shown(*weight) + ": expected a number from -1e6 to 1e6");
  return weight->get<double>();
}

}  // namespace

expected<RewardSpec> RewardSpec::parse(const json& document) {
  if (!document.is_object()) {
    return fail("reward spec is " + shown(document) + R"(: expected an object with "name" and "parts")");
  }
  if (const std::string wrong = wrong_key(document, {"name", "parts"}); !wrong.empty()) return fail(wrong);
  if (!document.contains("name") || !is_name(document["name"])) {
    return fail("\"name\": expected 1 to 64 letters, digits, - or _");
  }
  const auto parts = document.find("parts");
  if (parts == document.end() || !parts->is_array() || parts->empty()) {
    return fail("\"parts\": expected a list of parts, at least one");
  }

  RewardSpec spec;
  spec.name_ = document["name"];
  spec.document_ = document;
  std::set<std::string> names;
  for (std::size_t i = 0; i < parts->size(); ++i) {
    const json& part = (*parts)[i];
    const std::string where = "\"parts[" + std::to_string(i) + "]\": ";
    if (!part.is_object()) return fail(where + R"(expected an object with "name", "kind" and "weight")");
    const auto kind = kind_of(part);
    if (!kind) return fail(where + kind.error().message);
    std::vector<std::string> known = {"name", "kind", "weight"};
    known.insert(known.end(), (*kind)->keys.begin(), (*kind)->keys.end());
    if (const std::string wrong = wrong_key(part, known); !wrong.empty()) return fail(where + wrong);
    if (!part.contains("name") || !is_name(part["name"])) {
      return fail(where + "\"name\": expected 1 to 64 letters, digits, - or _");
    }
    if (!names.insert(part["name"]).second) return fail(where + "\"name\" " + shown(part["name"]) + " stands twice");
    const auto weight = weight_of(part);
    if (!weight) return fail(where + weight.error().message);
    Part made{part["name"], *weight, nullptr, nullptr, false};
    if ((*kind)->make_remote) {
      auto ask = (*kind)->make_remote(part);
      if (!ask) return fail(where + ask.error().message);
      made.ask = std::move(*ask);
      const json choice = part.value("on_failure", json("fail"));
      if (choice != "fail" && choice != "omit") return fail(where + "\"on_failure\": expected \"fail\" or \"omit\"");
      made.may_fail = choice == "omit";
    } else {
      auto value = (*kind)->make(part);
      if (!value) return fail(where + value.error().message);
      made.value = std::move(*value);
    }
    spec.parts_.push_back(std::make_shared<const Part>(std::move(made)));
  }
  return spec;
}

Score RewardSpec::score(const std::string& answer, const std::string& expected_answer) const {
  Score score;
  score.spec = name_;
  for (const auto& part : parts_) {
    const double value = part->value ? part->value(answer, expected_answer) : std::numeric_limits<double>::quiet_NaN();
    score.parts.push_back({part->name, value, part->weight});
    score.total += part->weight * value;
  }
  return score;
}

bool RewardSpec::remote() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->ask != nullptr; });
}

expected<Score> RewardSpec::ask(const ScoredAnswer& scored) const {
  std::vector<std::future<expected<double>>> asked;  // all at once: the score takes as long as its slowest part
  for (const auto& part : parts_) {
    asked.push_back(std::async(part->ask ? std::launch::async : std::launch::deferred, [&part, &scored] {
      return part->ask ? part->ask(scored) : expected<double>(part->value(scored.answer, scored.expected_answer));
    }));
  }
  Score score;
  score.spec = name_;
  std::string failure;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = *parts_[i];
    const expected<double> value = asked[i].get();
    if (!value) {
      if (!part.may_fail) failure = "part " + part.name + ": " + value.error().message;
      continue;
    }
    score.parts.push_back({part.name, *value, part.weight});
    score.total += part.weight * *value;
  }
  if (!failure.empty()) return fail(failure);
  if (score.parts.empty()) return fail("no part of " + name_ + " was answered");
  return score;
}

expected<RewardSpec> load_reward_spec(const std::string& directory, const std::string& name) {
  const std::vector<std::string> known = list_reward_specs(directory);
  if (known.empty()) return fail("\"reward.directory\": " + directory + " holds no reward specs (NAME.json)");
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    return fail("\"reward.spec\": no " + name + ".json in " + directory + ": did you mean \"" + nearest(name, known) +
                "\"?");
  }
  const std::string file = directory + "/" + name + ".json";
  const auto document = read_json_file(file);
  if (!document) return tl::unexpected(document.error());
  auto spec = RewardSpec::parse(*document);
  if (!spec) return fail(file + ": " + spec.error().message);
  if (spec->name() != name) return fail(file + ": \"name\" is \"" + spec->name() + "\": expected \"" + name + "\"");
  return spec;
}

std::vector<std::string> list_reward_specs(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;  // a folder that is not there holds none
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millrace
