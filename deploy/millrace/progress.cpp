#include "deploy/millrace/progress.hpp"

#include <cstdio>

#include <nlohmann/json.hpp>

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

namespace {

nlohmann::ordered_json evaluation_json(const Evaluation& evaluation) {
  if (evaluation.version == 0) return nullptr;
  return {{"version", evaluation.version},
          {"tasks", evaluation.tasks},
          {"failed", evaluation.failed},
          {"reward_mean", evaluation.reward_mean},
          {"perplexity", evaluation.perplexity},
          {"kl", evaluation.kl},
          {"distinct_bigrams", evaluation.distinct_bigrams},
          {"length_mean", evaluation.length_mean}};
}

}  // namespace

std::string progress_json(const StepReport& report) {
  // nlohmann writes NaN and infinities as null.
  return nlohmann::ordered_json{
      {"policy_version", report.policy_version},
      {"reward_mean", report.reward_mean},
      {"lag_mean", report.lag_mean},
      {"lag_max", report.lag_max},
      {"masked_share", masked_share(report)},
      {"effective_sample_size", report.effective_sample_size},
      {"explained_variance", report.explained_variance},
      {"entropy", report.entropy},
      {"masked_share_low", report.masked_share_low},
      {"masked_share_high", report.masked_share_high},
      {"kl", report.kl},
      {"ratio_low", report.ratio_low},
      {"ratio_median", report.ratio_median},
      {"ratio_high", report.ratio_high},
      {"value_loss", report.value_loss},
      {"policy_gradient_norm", report.policy_gradient_norm},
      {"value_gradient_norm", report.value_gradient_norm},
      {"generated_tokens_per_second", report.generated_tokens_per_second},
      {"trained_tokens_per_second", report.trained_tokens_per_second},
      {"learner_token_passes", report.learner_token_passes},
      {"generator_busy", report.generator_busy},
      {"policy_busy", report.policy_busy},
      {"value_busy", report.value_busy},
      {"step_seconds", report.step_seconds},
      {"resident_bytes", report.resident_bytes},
      {"evaluation", evaluation_json(report.evaluation)},
  }
      .dump();
}

}  // namespace millrace
