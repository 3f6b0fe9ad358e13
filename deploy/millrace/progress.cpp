#include "deploy/millrace/progress.hpp"

#include <cstdio>

#include "runtime/step_json.hpp"

namespace millrace {
namespace {

double masked_share(const StepReport& report) { return report.masked_share_low + report.masked_share_high; }

}  // namespace

std::string progress_line(const StepReport& report) {
  char line[240];
  std::snprintf(line, sizeof line,
                "version %4llu | reward %7.4f | lag %4.2f max %llu | generated %6.1f/s trained %6.1f/s | "
                "masked %5.2f%% | explained variance %6.3f | %5.2f s",
                static_cast<unsigned long long>(report.policy_version), report.reward_mean, report.lag_mean,
                static_cast<unsigned long long>(report.lag_max), report.generated_tokens_per_second,
                report.trained_tokens_per_second, 100 * masked_share(report), report.explained_variance,
                report.step_seconds);
  return line;
}

std::string progress_json(const StepReport& report) { return to_json(report).dump(); }

}  // namespace millrace
