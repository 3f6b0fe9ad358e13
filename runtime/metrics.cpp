#include "runtime/metrics.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <mutex>
#include <numeric>
#include <set>
#include <sstream>

#include <prometheus/text_serializer.h>

#include "runtime/clock.hpp"
#include "runtime/metric_families.hpp"
#include "runtime/preference_recovery.hpp"
#include "runtime/process_metrics.hpp"

namespace millrace {
namespace {

constexpr std::size_t max_routes = 64;
const LabelValues methods{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};

}  // namespace

// Tokens judged since the last scrape. A histogram takes many observations at once, but not cheaply.
struct LagTally {
  std::vector<double> buckets = std::vector<double>(lag_buckets.size() + 1, 0.0);  // tokens; the last one is +Inf
  double sum = 0;

  void add(Version lag, double tokens) {
    const auto value = static_cast<double>(lag);
    const auto bucket = std::lower_bound(lag_buckets.begin(), lag_buckets.end(), value) - lag_buckets.begin();
    buckets[static_cast<std::size_t>(bucket)] += tokens;
    sum += value * tokens;
  }
  void show(Histogram& histogram) {
    histogram.ObserveMultiple(buckets, sum);
    *this = {};
  }
};
struct LagTallies {
  LagTally in_flight, in_queue, total;
};

struct Metrics::State : MetricFamilies {
  std::mutex mutex;  // of what follows; prometheus-cpp's own types lock themselves
  std::deque<double> rewards;
  LagTallies trained, rejected;
  PreferenceRecovery recovery{reward_window};
  std::set<std::string> routes;

  // What is made of many numbers is made when somebody looks.
  void show_at_scrape() {
    const std::scoped_lock lock(mutex);
    for (auto& [verdict, lags] : {std::pair("trained", &trained), {"rejected", &rejected}}) {
      lags->in_flight.show(lag.at({"in_flight", verdict}));
      lags->in_queue.show(lag.at({"in_queue", verdict}));
      lags->total.show(lag.at({"total", verdict}));
    }
    const double sum = std::accumulate(rewards.begin(), rewards.end(), 0.0);
    if (!rewards.empty()) reward_mean.Set(sum / static_cast<double>(rewards.size()));
    recovery_steps.Set(static_cast<double>(recovery.steps()));
    recovery_seconds.Set(recovery.seconds());
    recovering.Set(recovery.recovering() ? 1 : 0);
  }
};

Metrics::Metrics() : state_(std::make_unique<State>()) { state_->explained_variance.Set(std::nan("")); }
Metrics::~Metrics() = default;

std::string Metrics::text() const {
  state_->show_at_scrape();
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
Version Metrics::policy_version() const { return static_cast<Version>(state_->policy_version.Value()); }
void Metrics::value_version(std::uint64_t version) { state_->value_version.Set(static_cast<double>(version)); }
void Metrics::reward_spec(std::uint64_t version) { state_->reward_spec_version.Set(static_cast<double>(version)); }
void Metrics::preference_shift(std::uint64_t version) {
  state_->preference_shifts.Increment();
  const std::scoped_lock lock(state_->mutex);
  state_->recovery.shift(version, steady_now());
}
void Metrics::lifetime_trained(std::uint64_t count) { state_->lifetime_trained.Set(static_cast<double>(count)); }

void Metrics::tokens_generated(std::uint64_t prompt, std::uint64_t generated) {
  state_->prompt_tokens.Increment(static_cast<double>(prompt));
  state_->generated_tokens.Increment(static_cast<double>(generated));
}

void Metrics::judged(const Lag& lag, std::size_t tokens, bool trained) {
  const auto count = static_cast<double>(tokens);
  const std::scoped_lock lock(state_->mutex);
  LagTallies& lags = trained ? state_->trained : state_->rejected;
  lags.in_flight.add(lag.in_flight, count);
  lags.in_queue.add(lag.in_queue, count);
  lags.total.add(lag.total, count);
}

void Metrics::reward_lag(std::uint64_t scored_by) {
  state_->reward_lag.Observe(state_->reward_spec_version.Value() - static_cast<double>(scored_by));
}

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

void Metrics::reward(double reward, std::uint64_t scored_by) {
  state_->reward.Observe(reward);
  const std::scoped_lock lock(state_->mutex);
  auto& rewards = state_->rewards;
  rewards.push_back(reward);
  if (rewards.size() > reward_window) rewards.pop_front();
  state_->recovery.reward(reward, scored_by, steady_now());
}

void Metrics::gate_decision(const char* decision, const char* reason) {
  state_->gate_decisions.at({decision, reason}).Increment();
}

void Metrics::gate(int capacity, int running, int queued, int queue_capacity) {
  state_->gate_capacity.Set(capacity);
  state_->running_sessions.Set(running);
  state_->queue_depth.Set(queued);
  state_->queue_capacity.Set(queue_capacity);
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
  state_->importance_ratio.at({"1"}).Set(report.ratio_low);
  state_->importance_ratio.at({"50"}).Set(report.ratio_median);
  state_->importance_ratio.at({"99"}).Set(report.ratio_high);
  const std::scoped_lock lock(state_->mutex);
  state_->recovery.policy_step();
}

void Metrics::value_loss(double loss) { state_->value_loss.Set(loss); }

void Metrics::explained_variance(double ratio) { state_->explained_variance.Set(ratio); }

void Metrics::step_skipped(const char* learner) { state_->steps_skipped.at({learner}).Increment(); }

void Metrics::replica_wait(const char* learner, double seconds) {
  state_->replica_wait.at({learner}).Increment(seconds);
}

void Metrics::evaluated(const Evaluation& evaluation) {
  state_->evaluation_version.Set(static_cast<double>(evaluation.version));
  state_->evaluation_reward.Set(evaluation.reward_mean);
  state_->evaluation_perplexity.Set(evaluation.perplexity);
  state_->evaluation_kl.Set(evaluation.kl);
  state_->evaluation_distinct.Set(evaluation.distinct_bigrams);
  state_->evaluation_length.Set(evaluation.length_mean);
}

void Metrics::guard_alarm() { state_->guard_alarms.Increment(); }

void Metrics::publish(bool ok, double seconds, double pause_seconds) {
  state_->publishes.at({ok ? "ok" : "failed"}).Increment();
  state_->publish_duration.Observe(seconds);
  state_->publish_pause.Observe(pause_seconds);
}

void Metrics::environment_error(const std::string& environment, const char* kind) {
  state_->environment_errors.at({environment, kind}).Increment();
}

void Metrics::mailbox(const char* actor, std::size_t waiting) {
  state_->mailbox_depth.at({actor}).Set(static_cast<double>(waiting));
}

void Metrics::served(double first_token, double each_token, double whole) {
  state_->first_token.Observe(first_token);
  if (each_token > 0) state_->each_token.Observe(each_token);
  state_->served_turn.Observe(whole);
}

void Metrics::canary(bool good) { state_->canary_verdicts.at({good ? "good" : "bad"}).Increment(); }
void Metrics::good_policy(Version version) { state_->good_version.Set(static_cast<double>(version)); }
void Metrics::feedback(int code) { state_->feedback.at({std::to_string(code)}).Increment(); }
void Metrics::live_lessons(std::size_t count) { state_->live_lessons.Set(static_cast<double>(count)); }
void Metrics::actor_restart(const char* actor) { state_->actor_restarts.at({actor}).Increment(); }

void Metrics::degraded(bool is) { state_->degraded.Set(is ? 1 : 0); }

void Metrics::rolled_back() { state_->rollbacks.Increment(); }

void Metrics::checkpoint(bool ok, double seconds) {
  state_->checkpoints.at({ok ? "ok" : "failed"}).Increment();
  if (ok) state_->checkpoint_duration.Observe(seconds);
}

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
