#pragma once
// Every metric of the service with its name, help, labels and buckets; metrics.cpp says what is written to them.
// The prefix millrace_ is put before each name.
#include <string>
#include <vector>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "runtime/series.hpp"
#include "runtime/trajectory.hpp"

namespace millrace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;

inline const Buckets lag_buckets{0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64};
inline const Buckets token_buckets{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};
inline const Buckets reward_buckets{-1, -0.5, -0.25, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 2};
inline const Buckets second_buckets{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                    2.5,   5,      10,    30,   60,    120,  300, 600,  1800};

inline constexpr std::size_t reward_window = 128;  // trajectories in reward_mean

inline std::vector<LabelValues> singles(const LabelValues& values) {
  std::vector<LabelValues> all;
  for (const std::string& value : values) all.push_back({value});
  return all;
}

// Every way a trajectory can end.
inline std::vector<LabelValues> outcomes() {
  LabelValues names;
  for (const Outcome outcome :
       {Outcome::trained, Outcome::stale, Outcome::expired, Outcome::env_failed, Outcome::score_failed,
        Outcome::invalid, Outcome::group_dropped, Outcome::skipped, Outcome::rolled_back, Outcome::aborted}) {
    names.push_back(name_of(outcome));
  }
  return singles(names);
}

inline const LabelValues learners{"policy", "value"};
inline const LabelValues environments{"writing", "calculator", "letters", "turns", "guess", "shell",
                                      "process", "openenv",    "http",    "live",  "other"};
// Actors with one mailbox for the whole service; sessions come and go.
inline const LabelValues mailboxes{"generator",      "scorer",        "gatekeeper", "gateway",
                                   "policy_learner", "value_learner", "other"};
inline const LabelValues actors{"evaluator",     "live",         "session", "session_host", "generator",
                                "scorer",        "gatekeeper",   "gateway", "observer",     "policy_learner",
                                "value_learner", "checkpointer", "other"};

struct MetricFamilies {
  prometheus::Registry registry;

  template <class Metric>
  prometheus::Family<Metric>& family(prometheus::detail::Builder<Metric> builder, const std::string& name,
                                     const std::string& help) {
    return builder.Name("millrace_" + name).Help(help).Register(registry);
  }
  Counter& counter(const char* name, const char* help) {
    return family(prometheus::BuildCounter(), name, help).Add({});
  }
  Gauge& gauge(const char* name, const char* help, const prometheus::Labels& labels = {}) {
    return family(prometheus::BuildGauge(), name, help).Add(labels);
  }
  Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return family(prometheus::BuildHistogram(), name, help).Add({}, buckets);
  }
  using Labels = std::vector<std::string>;
  using Known = std::vector<LabelValues>;
  Series<Counter> counters(const char* name, const char* help, const Labels& labels, const Known& known) {
    return {family(prometheus::BuildCounter(), name, help), labels, known};
  }
  Series<Gauge> gauges(const char* name, const char* help, const Labels& labels, const Known& known) {
    return {family(prometheus::BuildGauge(), name, help), labels, known};
  }
  Series<Histogram> histograms(const char* name, const char* help, const Labels& labels, const Known& known,
                               const Buckets& buckets) {
    return {family(prometheus::BuildHistogram(), name, help), labels, known, buckets};
  }

  // Versions.
  Gauge& policy_version = gauge("policy_version", "Newest published policy.");
  Gauge& value_version = gauge("value_version", "Batches the value model has learned from.");
  Gauge& reward_spec_version = gauge("reward_spec_version", "Reward spec in force.");
  Counter& preference_shifts = counter("preference_shifts_total", "Reward specs replaced while running.");
  Gauge& recovery_steps =
      gauge("preference_recovery_steps",
            "Policy steps from the last shift until the mean of 128 rewards was back at 0.9 of before.");
  Gauge& recovery_seconds = gauge("preference_recovery_seconds", "The same in seconds.");
  Gauge& recovering = gauge("preference_recovering", "1 from a shift until the reward has recovered.");

  // Flow.
  Counter& prompt_tokens = counter("prompt_tokens_total", "Prompt tokens read by the generator.");
  Counter& generated_tokens = counter("generated_tokens_total", "Tokens sampled by the generator.");
  Counter& trained_tokens = counter("trained_tokens_total", "Action tokens in published policy steps.");
  Series<Histogram> lag =
      histograms("policy_lag_versions", "Versions an action token's policy is behind the learner, at judgement.",
                 {"stage", "verdict"}, pairs({"in_flight", "in_queue", "total"}, {"trained", "rejected"}), lag_buckets);
  Histogram& reward_lag =
      histogram("reward_lag_versions", "Reward specs a trajectory's score is behind, at judgement.", lag_buckets);
  Series<Counter> trajectories =
      counters("trajectories_total", "Trajectories by what became of them.", {"outcome"}, outcomes());
  Series<Histogram> trajectory_tokens =
      histograms("trajectory_tokens", "Action tokens of a trajectory, by what became of it.", {"outcome"}, outcomes(),
                 token_buckets);
  Series<Histogram> stages =
      histograms("stage_duration_seconds", "Time a trajectory spent in a stage.", {"stage"},
                 singles({"generate", "environment", "score", "queue", "value", "learn"}), second_buckets);
  Series<Counter> gate_decisions =
      counters("gate_decisions_total", "What the gate said, and why.", {"decision", "reason"},
               {{"grant", "capacity"},
                {"wait", "sessions"},
                {"wait", "staleness"},
                {"wait", "paused"},
                {"wait", "draining"},
                {"wait", "degraded"},
                {"reject", "stale"},
                {"other", "other"}});
  Gauge& gate_capacity = gauge("gate_capacity", "Sessions that may start now.");
  Gauge& running_sessions = gauge("sessions", "Live training sessions.", {{"state", "running"}});
  Gauge& queue_depth =
      gauge("queue_depth", "Accepted trajectories that are in no published version yet.", {{"queue", "trajectories"}});
  Gauge& queue_capacity = gauge("queue_capacity", "Places in the queue.", {{"queue", "trajectories"}});

  // Learning.
  Series<Counter> train_steps =
      counters("train_steps_total", "Optimizer steps on a batch.", {"learner"}, singles(learners));
  Series<Counter> steps_skipped =
      counters("train_steps_skipped_total", "Batches that made no step.", {"learner"}, singles(learners));
  Series<Counter> replica_wait = counters("replica_wait_seconds_total", "Time a learner waited for other replicas.",
                                          {"learner"}, singles(learners));
  Series<Histogram> step_duration = histograms("train_step_duration_seconds", "Time a learner spent on a step.",
                                               {"learner", "phase"}, pairs(learners, {"update"}), second_buckets);
  Series<Gauge> last_step = gauges("train_last_step_timestamp_seconds",
                                   "Unix time of the last step; 0 before the first.", {"learner"}, singles(learners));
  Series<Counter> masked_tokens =
      counters("masked_tokens_total", "Action tokens outside the trust region.", {"side"}, singles({"low", "high"}));
  Gauge& effective_sample_size =
      gauge("effective_sample_size_ratio", "Effective share of the last batch's action tokens.");
  Gauge& explained_variance = gauge("explained_variance_ratio",
                                    "Share of the returns' variance the value model explains; NaN where undefined.");
  Gauge& entropy = gauge("entropy_nats", "Mean entropy of the policy on the last batch.");
  Gauge& kl = gauge("kl_nats", "Mean KL from the sampling policy on the last batch.");
  Series<Gauge> importance_ratio =
      gauges("importance_ratio", "Ratios of policy to sampling policy over the last batch's action tokens.",
             {"percentile"}, singles({"1", "50", "99"}));
  Gauge& value_loss = gauge("value_loss", "0.5 times the mean squared error of the last batch's values.");
  Series<Gauge> gradient_norm =
      gauges("gradient_norm", "Gradient norm of the last step, before clipping.", {"learner"}, singles(learners));
  Series<Gauge> learning_rate =
      gauges("learning_rate", "Learning rate of the last step.", {"learner"}, singles(learners));
  Histogram& reward = histogram("reward", "Total reward of a trajectory.", reward_buckets);
  Gauge& reward_mean =
      gauge("reward_mean", "Mean reward of the last trajectories.", {{"window", std::to_string(reward_window)}});
  Gauge& lifetime_trained = gauge("lifetime_trained_trajectories", "Trajectories trained over all runs on this state.");
  Gauge& evaluation_version = gauge("evaluation_version", "Policy version of the last evaluation; 0 before the first.");
  Gauge& evaluation_reward = gauge("evaluation_reward_mean", "Mean reward on tasks that are not trained.");
  Gauge& evaluation_perplexity =
      gauge("evaluation_perplexity", "Of the evaluation's answers, under the policy at the start.");
  Gauge& evaluation_kl = gauge("evaluation_kl_nats", "Nats a token from the policy at the start, on its own answers.");
  Gauge& evaluation_distinct =
      gauge("evaluation_distinct_bigrams_ratio", "Different pairs of neighbouring tokens among all of an evaluation.");
  Gauge& evaluation_length = gauge("evaluation_length_tokens", "Mean action tokens of an evaluation's answers.");
  Counter& guard_alarms = counter("guard_alarms_total", "Collapses the guard has told of.");
  Series<Counter> publishes =
      counters("weight_publishes_total", "New weights given to the generator.", {"result"}, singles({"ok", "failed"}));
  Histogram& publish_duration =
      histogram("weight_publish_duration_seconds", "Time to bring new weights to the generator.", second_buckets);
  Histogram& publish_pause =
      histogram("weight_publish_pause_seconds", "Time the generator stood still for new weights.", second_buckets);

  // Live traffic.
  Histogram& first_token = histogram("serving_first_token_seconds",
                                     "From an application's request until its answer's first token.", second_buckets);
  Histogram& each_token =
      histogram("serving_token_seconds", "From one token of an application's answer to the next, a mean an answer.",
                second_buckets);
  Histogram& served_turn = histogram("serving_duration_seconds",
                                     "From an application's request until its answer's last token.", second_buckets);
  Series<Counter> feedback = counters("feedback_total", "Rewards that clients sent, by the answer they got.", {"code"},
                                      singles({"200", "404", "409", "410", "503", "other"}));
  Gauge& good_version =
      gauge("good_policy_version", "Policy that answers those whom the newest does not; 0: no canary.");
  Series<Counter> canary_verdicts = counters("canary_verdicts_total", "What ratings said of the newest policy.",
                                             {"verdict"}, singles({"good", "bad"}));
  Gauge& live_lessons = gauge("live_lessons", "Rewarded live traffic that waits for a permit.");

  // The service itself.
  Series<Counter> environment_errors =
      counters("env_errors_total", "Failures of environments.", {"environment", "kind"},
               pairs(environments, {"error", "timeout", "other"}));
  Series<Counter> actor_restarts =
      counters("actor_restarts_total", "Actors that died and were replaced.", {"actor"}, singles(actors));
  Series<Gauge> mailbox_depth = gauges("mailbox_depth", "Messages that waited for an actor when it last handled one.",
                                       {"actor"}, singles(mailboxes));
  Counter& ledger_records = counter("ledger_records_total", "Records written to the ledger.");
  Histogram& ledger_commit = histogram("ledger_commit_duration_seconds", "Time of a durable commit.", second_buckets);
  Gauge& degraded = gauge("degraded", "1 while the ledger cannot be written and nothing new begins.");
  Series<Counter> checkpoints = counters("checkpoints_total", "Checkpoints written, and those that could not be.",
                                         {"result"}, singles({"ok", "failed"}));
  Counter& rollbacks = counter("rollbacks_total", "Returns of the learners to a checkpoint.");
  Histogram& checkpoint_duration =
      histogram("checkpoint_duration_seconds", "Time to write a checkpoint, beside everything else.", second_buckets);
  // Made as they come: a route has few of all methods and codes. Bounded all the same, see http().
  prometheus::Family<Counter>& http_requests =
      family(prometheus::BuildCounter(), "http_requests_total", "HTTP requests answered.");
  prometheus::Family<Histogram>& http_duration =
      family(prometheus::BuildHistogram(), "http_request_duration_seconds", "Time to answer a request.");
};

}  // namespace millrace
