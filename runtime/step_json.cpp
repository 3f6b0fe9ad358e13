#include "runtime/step_json.hpp"

namespace millrace {
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

nlohmann::ordered_json to_json(const StepReport& report) {
  return {
      {"policy_version", report.policy_version},
      {"trajectories", report.trajectories},
      {"reward_mean", report.reward_mean},
      {"spec_oldest", report.spec_oldest},
      {"spec_newest", report.spec_newest},
      {"lag_mean", report.lag_mean},
      {"lag_max", report.lag_max},
      {"masked_share", report.masked_share_low + report.masked_share_high},
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
  };
}

}  // namespace millrace
