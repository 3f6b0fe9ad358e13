#pragma once
// The kinds of parts a reward spec is made of: each makes a function of an answer out of the part's own keys.
// A new kind is one line in spec.cpp and a file beside this one; tests/bench/rescore.py holds a second implementation.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/expected.hpp"
#include "runtime/lower_case.hpp"

namespace millrace {

// Always finite, whatever the bytes of the answer.
using PartFunction = std::function<double(const std::string& answer, const std::string& expected_answer)>;

// `part` is the part's JSON object. Errors name the key and what would be right, without the part's name.
expected<PartFunction> make_style_words(const nlohmann::json& part);
expected<PartFunction> make_repetition(const nlohmann::json& part);
expected<PartFunction> make_exact_answer(const nlohmann::json& part);
expected<PartFunction> make_letter_share(const nlohmann::json& part);

// The lower-cased words of a text: longest runs of ASCII letters and apostrophes ("o'er"), as [a-z']+ finds them.
std::vector<std::string> words_of(std::string_view text);

}  // namespace millrace
