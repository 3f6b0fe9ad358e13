#include "runtime/live/canary.hpp"

#include <numeric>
#include <sstream>

#include <xxhash.h>

namespace millrace {
namespace {

double mean_of(const std::deque<double>& ratings) {
  return std::accumulate(ratings.begin(), ratings.end(), 0.0) / static_cast<double>(ratings.size());
}

}  // namespace

Canary::Verdict Canary::rated(bool newest, double reward) {
  const auto enough = static_cast<std::size_t>(settings_.canary_ratings);
  std::deque<double>& ratings = newest ? newest_ : good_;
  ratings.push_back(reward);
  if (ratings.size() > enough) ratings.pop_front();
  if (newest_.size() < enough || good_.size() < enough) return Verdict::wait;
  const double of_newest = mean_of(newest_), of_good = mean_of(good_);
  std::ostringstream words;
  words << "mean rating " << of_newest << " against " << of_good;
  words_ = words.str();
  begin_anew();
  return of_newest >= of_good - settings_.canary_margin ? Verdict::good : Verdict::bad;
}

void Canary::begin_anew() {
  newest_.clear();
  good_.clear();
}

bool meets_canary(const LiveSettings& settings, const std::string& client) {
  const auto hash = static_cast<double>(XXH3_64bits(client.data(), client.size()) >> 11) * 0x1.0p-53;  // [0, 1)
  return hash < settings.canary_share;
}

}  // namespace millrace
