#pragma once
// What is being rewarded, as data: a reward spec is a weighted sum of parts, each a small function of the answer.
// A spec is immutable once it is made; a shift replaces it as a whole.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/expected.hpp"
#include "runtime/rewards/remote.hpp"
#include "runtime/trajectory.hpp"

namespace millrace {

class RewardSpec {
 public:
  // Strict: {"name": "...", "parts": [{"name", "kind", "weight", ...}]}. Kinds and their own keys:
  //   style_words   "words": [...]     1 - exp(-n / 2), n = distinct words of the list in the answer
  //   repetition    "above": 0.4       max(0, (1 - distinct words / words) - above)
  //   exact_answer                     1 when the answer's last number or line is the task's expected answer, else 0
  //   letter_share  "letters": "aeiou" share of the answer's bytes that are one of the letters
  //   http, judge   somebody else is asked, see rewards/remote.hpp
  // "on_failure" of the last two says what becomes of the score when nobody answers: "fail" (default; the trajectory
  // ends as score_failed) or "omit" (it goes without).
  // Errors name the key and what would be right.
  static expected<RewardSpec> parse(const nlohmann::json& document);

  Score score(const std::string& answer, const std::string& expected_answer) const;  // spec_version left 0
  // Whether a part has to be asked for somewhere else: then score() knows nothing of that part (NaN), ask() is needed.
  // It blocks until all parts have answered or given up, and fails when one did that must not be omitted.
  bool remote() const;
  expected<Score> ask(const ScoredAnswer& scored) const;
  const std::string& name() const { return name_; }
  const nlohmann::json& document() const { return document_; }

 private:
  struct Part;
  std::string name_;
  nlohmann::json document_;
  std::vector<std::shared_ptr<const Part>> parts_;
};

// config/rewards/NAME.json
expected<RewardSpec> load_reward_spec(const std::string& directory, const std::string& name);

// Names of the specs in the directory, sorted.
std::vector<std::string> list_reward_specs(const std::string& directory);

}  // namespace millrace
