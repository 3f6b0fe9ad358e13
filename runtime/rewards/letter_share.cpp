#include <algorithm>

#include "config/strict_json.hpp"
#include "runtime/rewards/kinds.hpp"

namespace millrace {

// Share of the answer's bytes, 0 for an empty answer. Capitals are other letters.
expected<PartFunction> make_letter_share(const nlohmann::json& part) {
  const auto letters = part.find("letters");
  if (letters == part.end()) return fail("\"letters\" is missing: expected a text like \"aeiou\"");
  const bool ascii = letters->is_string() && !letters->get<std::string>().empty() &&
                     std::all_of(letters->get_ref<const std::string&>().begin(),
                                 letters->get_ref<const std::string&>().end(), [](char c) { return c > 0; });
  if (!ascii) return fail("\"letters\" is " + shown(*letters) + ": expected a text of ASCII letters like \"aeiou\"");
  return [letters = letters->get<std::string>()](const std::string& answer, const std::string&) {
    if (answer.empty()) return 0.0;
    const auto hits =
        std::count_if(answer.begin(), answer.end(), [&](char c) { return letters.find(c) != std::string::npos; });
    return static_cast<double>(hits) / static_cast<double>(answer.size());
  };
}

}  // namespace millrace
