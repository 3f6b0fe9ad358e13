#include "runtime/live/canary.hpp"

#include <doctest/doctest.h>

using namespace millrace;

namespace {

LiveSettings settings_of(int ratings, double margin, double share = 0.2) {
  LiveSettings settings;
  settings.canary_ratings = ratings;
  settings.canary_margin = margin;
  settings.canary_share = share;
  return settings;
}

using Verdict = Canary::Verdict;

}  // namespace

TEST_CASE("the newest policy is judged once both have been rated often enough, by their last ratings") {
  Canary canary(settings_of(3, 0.1));
  for (int i = 0; i < 100; ++i) CHECK(canary.rated(false, i < 97 ? 1.0 : 0.5) == Verdict::wait);
  CHECK(canary.rated(true, 0.4) == Verdict::wait);
  CHECK(canary.rated(true, 0.5) == Verdict::wait);
  CHECK(canary.rated(true, 0.4) == Verdict::good);  // 0.433 against 0.5: within the margin
  CHECK(canary.words() == "mean rating 0.433333 against 0.5");

  CHECK(canary.rated(true, 0) == Verdict::wait);  // it counts anew
  for (int i = 0; i < 2; ++i) CHECK(canary.rated(false, 1) == Verdict::wait);
  for (int i = 0; i < 2; ++i) CHECK(canary.rated(true, 0) == Verdict::wait);
  CHECK(canary.rated(false, 1) == Verdict::bad);

  for (int i = 0; i < 3; ++i) canary.rated(false, 1);
  canary.begin_anew();
  for (int i = 0; i < 3; ++i) CHECK(canary.rated(true, 0) == Verdict::wait);
}

TEST_CASE("a client stays with one of the two, and the share is kept") {
  const LiveSettings settings = settings_of(1, 0, 0.2);
  int newest = 0;
  for (int client = 0; client < 10000; ++client) {
    const std::string name = "client-" + std::to_string(client);
    CHECK(meets_canary(settings, name) == meets_canary(settings, name));
    newest += meets_canary(settings, name);
  }
  CHECK(newest > 1800);
  CHECK(newest < 2200);
  CHECK(meets_canary(settings_of(1, 0, 1), "anybody"));
}
