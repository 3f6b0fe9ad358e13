#include <algorithm>
#include <set>

#include "config/strict_json.hpp"
#include "runtime/rewards/kinds.hpp"

namespace millrace {

// Share of words that were there before, as far as it lies above what is normal: max(0, 1 - distinct / words - above).
expected<PartFunction> make_repetition(const nlohmann::json& part) {
  const auto above = part.find("above");
  if (above == part.end()) return fail("\"above\" is missing: expected a number from 0 to 1");
  if (!above->is_number() || above->get<double>() < 0 || above->get<double>() > 1) {
    return fail("\"above\" is " + shown(*above) + ": expected a number from 0 to 1");
  }
  return [above = above->get<double>()](const std::string& answer, const std::string&) {
    const std::vector<std::string> words = words_of(answer);
    if (words.empty()) return 0.0;
    const std::set<std::string> distinct(words.begin(), words.end());
    const double repeated = 1.0 - static_cast<double>(distinct.size()) / static_cast<double>(words.size());
    return std::max(0.0, repeated - above);
  };
}

}  // namespace millrace
