#pragma once
// What runs of several recipes and seeds have come to, side by side: figures of each run, a table over seeds, a
// picture. A run is what `millrace serve --json` printed: one object a policy step.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace millrace {

struct Run {
  std::string recipe;
  std::string variant;  // of its settings; empty: there is only one
  std::uint64_t seed = 0;
  std::vector<nlohmann::json> steps;
  std::string failure;  // why it ended early; empty: it did not

  std::string label() const { return variant.empty() ? recipe : recipe + " " + variant; }
};

// Reads the complete lines of what a run printed; anything that is no object is left out.
std::vector<nlohmann::json> read_steps(const std::string& text);

// Figures of one run: recipe, variant, seed, steps, failure, reward_first (mean over the first tenth of its steps),
// reward_last (the last fifth), reward_mean (all), reward_best (best mean of ten steps in a row), masked_share,
// effective_sample_size, lag_mean, entropy_last, explained_variance_last, policy_gradient_norm, value_gradient_norm,
// seconds, generated_tokens_per_second, step_seconds, trajectories_per_second (trained ones), reward_per_minute (the
// sum of their rewards); null where there is no number.
nlohmann::ordered_json figures_of(const Run& run);

// One row a recipe (and variant): mean and standard deviation (of the sample) over its seeds, in the order of their
// first run.
std::string markdown_table(const std::vector<Run>& runs);
std::string csv_table(const std::vector<Run>& runs);  // one row a run, all figures

// Reward, masked share, entropy and explained variance over policy versions: mean over seeds, with the range as a band.
std::string svg_picture(const std::vector<Run>& runs);

}  // namespace millrace
