#include <cstdio>
#include <iostream>

#include <nlohmann/json.hpp>

#include "actors/replay.hpp"
#include "deploy/millrace/console.hpp"

namespace millrace {

int replay(const ReplayCommand& command) {
  auto settings = load_program_settings(command.config, command.sets);
  if (!settings) return complain(bad_use, settings.error().message);
  ReplayOptions options;
  options.settings = *settings;
  options.from = command.from;
  options.to = command.to;
  options.spec = command.spec;
  options.counterfactual = !command.sets.empty() || !command.spec.empty();
  const auto show = [&](const ReplayedStep& step) {
    if (command.json) {
      std::cout << nlohmann::ordered_json{{"step", step.step},
                                          {"trajectories", step.trajectories},
                                          {"policy", step.policy},
                                          {"reward_mean", step.reward_mean},
                                          {"effective_sample_size", step.effective_sample_size},
                                          {"masked_share", step.masked_share},
                                          {"explained_variance", step.explained_variance}}
                       .dump()
                << std::endl;
      return;
    }
    char line[160];
    std::snprintf(line, sizeof line,
                  "batch %5llu | %4zu trajectories | reward %7.4f | effective sample size %.3f | masked %5.2f%% | "
                  "explained variance %6.3f%s",
                  static_cast<unsigned long long>(step.step), step.trajectories, step.reward_mean,
                  step.effective_sample_size, 100 * step.masked_share, step.explained_variance,
                  step.policy ? "" : " | value only");
    std::cout << line << std::endl;
  };
  const auto report = replay(options, show);
  if (!report) return complain(failed, report.error().message);
  const std::string verdict =
      report->identical ? "bit for bit the same" : "not the same, first in " + report->difference;
  if (command.json) {
    std::cout << nlohmann::ordered_json{{"from", report->from},
                                        {"to", report->to},
                                        {"identical", report->identical},
                                        {"difference", report->difference}}
                     .dump()
              << std::endl;
  } else {
    std::cout << report->from << " -> " << report->to << ": " << verdict << std::endl;
  }
  return report->identical || options.counterfactual ? done : failed;
}

}  // namespace millrace
