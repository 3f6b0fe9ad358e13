#include <cmath>
#include <fstream>
#include <vector>

#include "tests/torch_doctest.hpp"

#include <nlohmann/json.hpp>

#include "models/objectives/explained_variance.hpp"
#include "models/objectives/running_rms.hpp"

namespace millrace {
namespace {

TEST_CASE("explained variance is the reference's; NaN where nothing varies") {
  std::ifstream file(MILLRACE_TEST_DATA "/objectives.json");
  const auto cases = nlohmann::json::parse(file)["explained_variance"];
  REQUIRE(cases.size() == 2);
  for (const auto& c : cases) {
    const double ev =
        explained_variance(c["values"].get<std::vector<double>>(), c["returns"].get<std::vector<double>>());
    if (c["ev"].is_null()) {
      CHECK(std::isnan(ev));
    } else {
      CHECK(ev == doctest::Approx(c["ev"].get<double>()).epsilon(1e-12));
    }
  }
  CHECK(std::isnan(explained_variance({}, {})));
}

TEST_CASE("a perfect critic explains all, a constant nothing, a reversed one less than nothing") {
  const std::vector<double> returns{0, 1};
  CHECK(explained_variance(std::vector<double>{0, 1}, returns) == doctest::Approx(1));
  CHECK(explained_variance(std::vector<double>{7, 7}, returns) == doctest::Approx(0));
  CHECK(explained_variance(std::vector<double>{1, 0}, returns) == doctest::Approx(-3));
}

TEST_CASE("the window weighs tokens, not trajectories, and forgets the oldest") {
  ExplainedVarianceWindow window(2);
  CHECK(std::isnan(window.value()));
  window.add({100, -100}, {0, 1});  // to be forgotten
  window.add({0, 0}, {0, 0});
  window.add({1}, {3});
  // V = 0 0 1, R = 0 0 3: errors 0 0 2, Var 8/9; Var(R) = 2
  CHECK(window.value() == doctest::Approx(1 - (8.0 / 9.0) / 2.0));
}

TEST_CASE("the running RMS is 1 until a batch was seen, then a bias-free exponential mean") {
  RunningRms rms;
  CHECK(rms.divisor() == 1);
  rms.update(16, 4);
  CHECK(rms.divisor() == doctest::Approx(2));
  rms.update(64, 4);  // mean squares 4 and 16, weights 0.09 and 0.1
  CHECK(rms.divisor() == doctest::Approx(std::sqrt((0.09 * 4 + 0.1 * 16) / 0.19)));
}

TEST_CASE("the running RMS ignores empty and non-finite batches and never divides by zero") {
  RunningRms rms;
  rms.update(0, 0);
  rms.update(std::nan(""), 3);
  CHECK(rms.divisor() == 1);
  rms.update(0, 3);
  CHECK(rms.divisor() == doctest::Approx(1e-6));
}

}  // namespace
}  // namespace millrace
