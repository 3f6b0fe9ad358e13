#include "runtime/comparison.hpp"

#include <cmath>

#include <doctest/doctest.h>

using namespace millrace;

namespace {

Run run_of(const char* recipe, std::uint64_t seed, std::initializer_list<double> rewards, const char* failure = "") {
  Run run{recipe, "", seed, {}, failure};
  for (const double reward : rewards) {
    run.steps.push_back({{"policy_version", run.steps.size() + 1},
                         {"trajectories", 8},
                         {"reward_mean", reward},
                         {"masked_share", 0.25},
                         {"step_seconds", 2.0},
                         {"explained_variance", nullptr}});
  }
  return run;
}

}  // namespace

TEST_CASE("only whole lines that are objects are steps") {
  const auto steps = read_steps("{\"reward_mean\": 1}\nno json\n[]\n{\"reward_mean\": 2}\n{\"reward_me");
  REQUIRE(steps.size() == 2);
  CHECK(steps[1]["reward_mean"] == 2);
  CHECK(read_steps("").empty());
}

TEST_CASE("figures of a run, nothing where there is no number") {
  const auto figures = figures_of(run_of("sao", 3, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  CHECK(figures["seed"] == 3);
  CHECK(figures["reward_first"] == 0.0);
  CHECK(figures["reward_last"] == 8.5);
  CHECK(figures["reward_best"] == 4.5);
  CHECK(figures["seconds"] == 20.0);
  CHECK(figures["trajectories_per_second"] == 4.0);
  CHECK(figures["reward_per_minute"] == 45 * 8 * 3.0);
  CHECK(std::isnan(figures["explained_variance_last"].get<double>()));
  CHECK(figures_of({"sao", "", 0, {}, "exit code 1"})["steps"] == 0);
}

TEST_CASE("a table over seeds; a failed run is counted and loses nobody else's") {
  const std::vector<Run> runs{run_of("sao", 0, {0.5, 0.5}), run_of("grpo", 0, {}, "exit code 1: \"oh\", it said"),
                              run_of("sao", 1, {0.7, 0.7})};
  const std::string table = markdown_table(runs);
  CHECK(table.find("| `sao` | 2 | 0 | 0.600 ± 0.141 |") != std::string::npos);
  CHECK(table.find("| `grpo` | 1 | 1 |  |") != std::string::npos);
  const std::string csv = csv_table(runs);
  CHECK(csv.find("recipe,variant,seed,steps,failure,reward_first") == 0);
  CHECK(csv.find("grpo,,0,0,\"exit code 1: \"\"oh\"\", it said\",") != std::string::npos);
  const std::string svg = svg_picture(runs);
  CHECK(svg.find("<svg") == 0);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find(">grpo</text>") != std::string::npos);
}
