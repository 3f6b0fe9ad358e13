#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/torch_doctest.hpp"

#include <nlohmann/json.hpp>

#include "models/objectives/gae.hpp"

namespace millrace {
namespace {

nlohmann::json golden() {
  std::ifstream file(MILLRACE_TEST_DATA "/objectives.json");
  return nlohmann::json::parse(file);
}

// Rewards are float32 in a trajectory, hence 1e-7.
void check_close(const std::vector<double>& numbers, const std::vector<double>& right, double tolerance = 1e-7) {
  REQUIRE(numbers.size() == right.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) CHECK(std::abs(numbers[i] - right[i]) < tolerance);
}

struct Episode {
  std::vector<std::uint8_t> mask;
  std::vector<double> values;
  std::vector<float> rewards;
  double after_last = 0;

  std::vector<double> advantages(double gamma, double lambda) const {
    return skip_observation_gae(mask, values, rewards, after_last, gamma, lambda);
  }
};

TEST_CASE("advantages, targets and value loss are the reference's") {
  const auto cases = golden()["gae"];
  REQUIRE(cases.size() == 9);
  for (const auto& c : cases) {
    CAPTURE(c["name"].get<std::string>());
    const Episode episode{c["mask"], c["values"], c["rewards"], c["terminated"] ? 0.0 : c["value_after"].get<double>()};
    const auto policy_pass = episode.advantages(c["gamma"], c["lambda_policy"]);
    const auto value_pass = episode.advantages(c["gamma"], c["lambda_value"]);
    std::vector<double> advantages, targets;
    double loss = 0;
    for (std::size_t t = 0; t < episode.mask.size(); ++t) {
      if (!episode.mask[t]) {
        CHECK(policy_pass[t] == 0);
        continue;
      }
      advantages.push_back(policy_pass[t]);
      targets.push_back(value_pass[t] + episode.values[t]);
      loss += 0.5 * value_pass[t] * value_pass[t];
    }
    check_close(advantages, c["advantage"]);
    check_close(targets, c["value_target"]);
    CHECK(loss / static_cast<double>(targets.size()) == doctest::Approx(c["value_loss"].get<double>()).epsilon(1e-6));
  }
}

TEST_CASE("B11: observations are no transitions") {
  const Episode episode{{1, 1, 0, 0, 0, 1, 1}, {.2, .3, 9, 9, 9, .5, .6}, {0, 0, 0, 0, 0, 0, 1}};
  check_close(episode.advantages(1.0, 0.9), {.6526, .6140, 0, 0, 0, .4600, .4000});
  check_close(episode.advantages(0.9, 0.8), {.348035, .386160, 0, 0, 0, .328000, .400000}, 1e-6);
}

TEST_CASE("B12: a trailing observation neither bootstraps nor keeps the reward") {
  check_close(Episode{{1, 1, 0}, {.2, .1, 50}, {0, 1, 0}}.advantages(1.0, 0.95), {.755, .90, 0});
  check_close(Episode{{1, 1, 0}, {.4, .5, 50}, {0, 0, 1}}.advantages(1.0, 0.9), {.55, .50, 0});
  check_close(Episode{{1}, {.4}, {1}}.advantages(1.0, 0.95), {.6});
}

TEST_CASE("B13: terminated and truncated are two things") {
  Episode episode{{1, 1, 1, 1, 1}, {.5, .4, .6, .7, .3}, {0, .1f, 0, 0, .2f}};
  check_close(episode.advantages(.99, .95), {-.158732, -.058194, -.374476, -.497050, -.1}, 1e-6);
  episode.after_last = .8;
  check_close(episode.advantages(.99, .95), {.460938, .600679, .326080, .247826, .692}, 1e-6);
}

TEST_CASE("a reward that arrives before any action belongs to the first one") {
  check_close(Episode{{0, 1, 1}, {9, .5, .5}, {.25f, 0, 1}}.advantages(1.0, 1.0), {0, .75, .5});
}

TEST_CASE("without actions there are no advantages") {
  check_close(Episode{{0, 0}, {1, 1}, {1, 1}}.advantages(1.0, 1.0), {0, 0});
  check_close(Episode{}.advantages(1.0, 1.0), {});
}

TEST_CASE("length-adaptive lambda is the reference's, clamped") {
  const auto cases = golden()["length_adaptive_lambda_clamped_0_1"];
  REQUIRE(cases.size() == 10);
  for (const auto& c : cases) {
    CHECK(length_adaptive_lambda(c["alpha"], c["length"]) == doctest::Approx(c["lam"].get<double>()).epsilon(1e-12));
  }
  CHECK(length_adaptive_lambda(0.05, 1) == 0);
}

}  // namespace
}  // namespace millrace
