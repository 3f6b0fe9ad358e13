#include "runtime/metrics.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <mutex>
#include <numeric>
#include <set>
#include <sstream>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "runtime/process_metrics.hpp"
#include "runtime/series.hpp"

namespace millrace {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;

const Buckets lag_buckets{0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64};
const Buckets token_buckets{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};
const Buckets reward_buckets{-1, -0.5, -0.25, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 2};
const Buckets second_buckets{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                             2.5,   5,      10,    30,   60,    120,  300, 600,  1800};

constexpr std::size_t reward_window = 128;  // trajectories in reward_mean
constexpr std::size_t max_routes = 64;

std::vector<LabelValues> singles(const LabelValues& values) {
  std::vector<LabelValues> all;
  for (const std::string& value : values) all.push_back({value});
  return all;
}

// Every way a trajectory can end.
std::vector<LabelValues> outcomes() {
  LabelValues names;
  for (const Outcome outcome : {Outcome::trained, Outcome::stale, Outcome::expired, Outcome::env_failed,
                                Outcome::score_failed, Outcome::invalid, Outcome::skipped, Outcome::aborted}) {
    names.push_back(name_of(outcome));
  }
  return singles(names);
}

const LabelValues learners{"policy", "value"};
const LabelValues environments{"writing", "calculator", "letters", "other"};
const LabelValues actors{"session", "session_host", "generator",      "scorer",        "gatekeeper",
                         "gateway", "observer",     "policy_learner", "value_learner", "other"};
const LabelValues methods{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};

double unix_now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

struct Metrics::State {
  prometheus::Registry registry;

  template <class Metric>
  prometheus::Family<Metric>& family(prometheus::detail::Builder<Metric> builder, const std::string& name,
                                     const std::string& help) {
    return builder.Name("millrace_" + name).Help(help).Register(registry);
  }
  Counter& counter(const char* name, const char* help) {
    return family(prometheus::BuildCounter(), name, help).Add({});
  }
  Gauge& gauge(const char* name, const char* help) { return family(prometheus::BuildGauge(), name, help).Add({}); }
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
  Series<Counter> gate_decisions = counters(
      "gate_decisions_total", "What the gate said, and why.", {"decision", "reason"},
      {{"grant", "capacity"}, {"wait", "sessions"}, {"wait", "staleness"}, {"reject", "stale"}, {"other", "other"}});
  Gauge& gate_capacity = gauge("gate_capacity", "Sessions that may start now.");
  Series<Gauge> sessions = gauges("sessions", "Live training sessions.", {"state"}, {{"running"}});
  Series<Gauge> queue_depth = gauges("queue_depth", "Accepted trajectories that are in no published version yet.",
                                     {"queue"}, {{"trajectories"}});
  Series<Gauge> queue_capacity = gauges("queue_capacity", "Places in the queue.", {"queue"}, {{"trajectories"}});

  // Learning.
  Series<Counter> train_steps =
      counters("train_steps_total", "Optimizer steps on a batch.", {"learner"}, singles(learners));
  Series<Counter> steps_skipped =
      counters("train_steps_skipped_total", "Batches that made no step.", {"learner"}, singles(learners));
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
  Series<Gauge> gradient_norm =
      gauges("gradient_norm", "Gradient norm of the last step, before clipping.", {"learner"}, singles(learners));
  Series<Gauge> learning_rate =
      gauges("learning_rate", "Learning rate of the last step.", {"learner"}, singles(learners));
  Histogram& reward = histogram("reward", "Total reward of a trajectory.", reward_buckets);
  Series<Gauge> reward_mean =
      gauges("reward_mean", "Mean reward of the last trajectories.", {"window"}, {{std::to_string(reward_window)}});
  Gauge& lifetime_trained = gauge("lifetime_trained_trajectories", "Trajectories trained over all runs on this state.");
  Series<Counter> publishes =
      counters("weight_publishes_total", "New weights given to the generator.", {"result"}, singles({"ok", "failed"}));
  Histogram& publish_duration =
      histogram("weight_publish_duration_seconds", "Time to bring new weights to the generator.", second_buckets);
  Histogram& publish_pause =
      histogram("weight_publish_pause_seconds", "Time the generator stood still for new weights.", second_buckets);

  // The service itself.
  Series<Counter> environment_errors =
      counters("env_errors_total", "Failures of environments.", {"environment", "kind"},
               pairs(environments, {"error", "timeout", "other"}));
  Series<Counter> actor_restarts =
      counters("actor_restarts_total", "Actors that died and were replaced.", {"actor"}, singles(actors));
  Counter& ledger_records = counter("ledger_records_total", "Records written to the ledger.");
  Histogram& ledger_commit = histogram("ledger_commit_duration_seconds", "Time of a durable commit.", second_buckets);
  // Made as they come: a route has few of all methods and codes. Bounded all the same, see http().
  prometheus::Family<Counter>& http_requests =
      family(prometheus::BuildCounter(), "http_requests_total", "HTTP requests answered.");
  prometheus::Family<Histogram>& http_duration =
      family(prometheus::BuildHistogram(), "http_request_duration_seconds", "Time to answer a request.");

  std::mutex mutex;  // of what follows; prometheus-cpp's own types lock themselves
  std::deque<double> rewards;
  std::set<std::string> routes;
};

Metrics::Metrics() : state_(std::make_unique<State>()) { state_->explained_variance.Set(std::nan("")); }
Metrics::~Metrics() = default;

std::string Metrics::text() const {
  auto families = state_->registry.Collect();
  for (auto& family : process_metrics()) families.push_back(std::move(family));
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  std::string text = out.str();
  // prometheus-cpp 1.0.1 writes "Nan", which no parser takes. Label values end with a quote, so only values match.
  for (std::size_t at = 0; (at = text.find(" Nan\n", at)) != std::string::npos;) text.replace(at, 4, " NaN");
  return text;
}

void Metrics::policy_version(Version version) { state_->policy_version.Set(static_cast<double>(version)); }
void Metrics::value_version(std::uint64_t version) { state_->value_version.Set(static_cast<double>(version)); }
void Metrics::reward_spec(std::uint64_t version) { state_->reward_spec_version.Set(static_cast<double>(version)); }
void Metrics::preference_shift() { state_->preference_shifts.Increment(); }
void Metrics::lifetime_trained(std::uint64_t count) { state_->lifetime_trained.Set(static_cast<double>(count)); }

void Metrics::tokens_generated(std::uint64_t prompt, std::uint64_t generated) {
  state_->prompt_tokens.Increment(static_cast<double>(prompt));
  state_->generated_tokens.Increment(static_cast<double>(generated));
}

void Metrics::judged(const Lag& lag, std::size_t tokens, bool trained) {
  const auto count = static_cast<double>(tokens);
  const auto observe = [&](const char* stage, Version versions) {
    const auto value = static_cast<double>(versions);
    const auto bucket = std::lower_bound(lag_buckets.begin(), lag_buckets.end(), value) - lag_buckets.begin();
    std::vector<double> increments(lag_buckets.size() + 1, 0.0);  // the last one is +Inf
    increments[static_cast<std::size_t>(bucket)] = count;
    state_->lag.at({stage, trained ? "trained" : "rejected"}).ObserveMultiple(increments, value * count);
  };
  observe("in_flight", lag.in_flight);
  observe("in_queue", lag.in_queue);
  observe("total", lag.total);
}

void Metrics::reward_lag(std::uint64_t versions) { state_->reward_lag.Observe(static_cast<double>(versions)); }

void Metrics::outcome(Outcome outcome, std::size_t action_tokens) {
  state_->trajectories.at({name_of(outcome)}).Increment();
  state_->trajectory_tokens.at({name_of(outcome)}).Observe(static_cast<double>(action_tokens));
}

void Metrics::stages(const StageSeconds& seconds) {
  const auto observe = [&](const char* stage, double value) {
    if (value > 0) state_->stages.at({stage}).Observe(value);  // 0: it never came there
  };
  observe("generate", seconds.generate);
  observe("environment", seconds.environment);
  observe("score", seconds.score);
  observe("queue", seconds.queue);
  observe("value", seconds.value);
  observe("learn", seconds.learn);
}

void Metrics::reward(double reward) {
  state_->reward.Observe(reward);
  const std::scoped_lock lock(state_->mutex);
  auto& rewards = state_->rewards;
  rewards.push_back(reward);
  if (rewards.size() > reward_window) rewards.pop_front();
  const double sum = std::accumulate(rewards.begin(), rewards.end(), 0.0);
  state_->reward_mean.at({std::to_string(reward_window)}).Set(sum / static_cast<double>(rewards.size()));
}

void Metrics::gate_decision(const char* decision, const char* reason) {
  state_->gate_decisions.at({decision, reason}).Increment();
}

void Metrics::gate(int capacity, int running, int queued, int queue_capacity) {
  state_->gate_capacity.Set(capacity);
  state_->sessions.at({"running"}).Set(running);
  state_->queue_depth.at({"trajectories"}).Set(queued);
  state_->queue_capacity.at({"trajectories"}).Set(queue_capacity);
}

void Metrics::value_step(double seconds, double gradient_norm, double learning_rate) {
  state_->train_steps.at({"value"}).Increment();
  state_->step_duration.at({"value", "update"}).Observe(seconds);
  state_->last_step.at({"value"}).Set(unix_now());
  state_->gradient_norm.at({"value"}).Set(gradient_norm);
  state_->learning_rate.at({"value"}).Set(learning_rate);
}

void Metrics::policy_step(const StepReport& report, double learning_rate, double update_seconds,
                          double masked_low_tokens, double masked_high_tokens) {
  state_->train_steps.at({"policy"}).Increment();
  state_->step_duration.at({"policy", "update"}).Observe(update_seconds);
  state_->last_step.at({"policy"}).Set(unix_now());
  state_->gradient_norm.at({"policy"}).Set(report.policy_gradient_norm);
  state_->learning_rate.at({"policy"}).Set(learning_rate);
  state_->trained_tokens.Increment(static_cast<double>(report.trained_tokens));
  state_->masked_tokens.at({"low"}).Increment(masked_low_tokens);
  state_->masked_tokens.at({"high"}).Increment(masked_high_tokens);
  state_->effective_sample_size.Set(report.effective_sample_size);
  state_->entropy.Set(report.entropy);
  state_->kl.Set(report.kl);
}

void Metrics::explained_variance(double ratio) { state_->explained_variance.Set(ratio); }

void Metrics::step_skipped(const char* learner) { state_->steps_skipped.at({learner}).Increment(); }

void Metrics::publish(bool ok, double seconds, double pause_seconds) {
  state_->publishes.at({ok ? "ok" : "failed"}).Increment();
  state_->publish_duration.Observe(seconds);
  state_->publish_pause.Observe(pause_seconds);
}

void Metrics::environment_error(const std::string& environment, const char* kind) {
  state_->environment_errors.at({environment, kind}).Increment();
}

void Metrics::actor_restart(const char* actor) { state_->actor_restarts.at({actor}).Increment(); }

void Metrics::ledger_commit(double seconds, std::size_t records) {
  state_->ledger_commit.Observe(seconds);
  state_->ledger_records.Increment(static_cast<double>(records));
}

void Metrics::http(const char* route, const char* method, int code, double seconds) {
  std::string known = route;
  {
    // Routes are patterns out of the gateway's table; the limit holds even if a path should slip in.
    const std::scoped_lock lock(state_->mutex);
    if (state_->routes.size() < max_routes) state_->routes.insert(known);
    if (!state_->routes.contains(known)) known = "other";
  }
  const bool usual = std::find(methods.begin(), methods.end(), method) != methods.end();
  const std::string status = code >= 100 && code < 600 ? std::to_string(code) : "other";
  state_->http_requests.Add({{"route", known}, {"method", usual ? method : "other"}, {"code", status}}).Increment();
  state_->http_duration.Add({{"route", known}}, second_buckets).Observe(seconds);
}

}  // namespace millrace
