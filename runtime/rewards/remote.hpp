#pragma once
// Parts of a reward spec that ask somebody else: a scoring service over HTTP, or another model as a judge. They take
// their time and may fail; a failure is an error and never a score.
#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "config/expected.hpp"

namespace millrace {

struct ScoredAnswer {
  std::string answer;
  std::string expected_answer;
  std::string task;  // the user's words
};

// Finite. May be called from several threads at once; returns within the part's "timeout_s", retries included.
using RemoteFunction = std::function<expected<double>(const ScoredAnswer&)>;

// {"url": "http://HOST:PORT/PATH", "shape": "verify" (NeMo-Gym) or "rewards" (OpenRLHF), "timeout_s"?, "retries"?,
//  "token_file"?}
expected<RemoteFunction> make_http(const nlohmann::json& part);
// {"url": "http://HOST:PORT/v1", "model": "...", "rubric": "...", "timeout_s"?, "retries"?, "token_file"?}: a model
// that is asked for a number from 0 to 10, given as 0 to 1. The same question is asked once.
expected<RemoteFunction> make_judge(const nlohmann::json& part);

}  // namespace millrace
