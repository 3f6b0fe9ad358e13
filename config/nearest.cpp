#include "config/nearest.hpp"

#include <algorithm>
#include <numeric>

namespace millrace {
namespace {

// Levenshtein: insertions, deletions and substitutions that make a out of b.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  const auto distance = [&](const std::string& candidate) {
    const std::size_t dot = candidate.rfind('.');
    const std::size_t whole = edit_distance(name, candidate);
    return dot == std::string::npos ? whole : std::min(whole, 1 + edit_distance(name, candidate.substr(dot + 1)));
  };
  return *std::min_element(known.begin(), known.end(),
                           [&](const std::string& a, const std::string& b) { return distance(a) < distance(b); });
}

}  // namespace millrace
