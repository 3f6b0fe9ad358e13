#pragma once
// Every metric of the service, named once (DESIGN: prefix millrace_, base units, bounded labels). Thread-safe; each
// member may be called from any actor.
#include <memory>
#include <string>

#include "runtime/evaluation.hpp"
#include "runtime/staleness.hpp"
#include "runtime/trajectory.hpp"

namespace millrace {

// One policy step as metrics, status and the progress line show it.
struct StepReport {
  Version policy_version = 0;
  std::size_t trajectories = 0;
  double reward_mean = 0;
  std::uint64_t spec_oldest = 0;  // versions of the specs that scored the batch; 0 = feedback only
  std::uint64_t spec_newest = 0;
  double lag_mean = 0;  // versions, over trained tokens
  Version lag_max = 0;
  double masked_share_low = 0;
  double masked_share_high = 0;
  double effective_sample_size = 0;  // ratio, 0..1
  double explained_variance = 0;     // NaN where undefined
  double entropy = 0;                // nats
  double kl = 0;                     // nats
  double ratio_low = 1;              // importance ratios of the step's tokens: 1 % are below this one,
  double ratio_median = 1;           // half of them below this,
  double ratio_high = 1;             // and 99 % below this
  double policy_gradient_norm = 0;
  double value_gradient_norm = 0;
  double value_loss = 0;
  double generated_tokens_per_second = 0;  // since the last step
  double trained_tokens_per_second = 0;
  double step_seconds = 0;    // since the last step was published
  double generator_busy = 0;  // share of step_seconds
  double policy_busy = 0;
  double value_busy = 0;
  std::uint64_t trained_tokens = 0;        // action tokens
  std::uint64_t learner_token_passes = 0;  // tokens x passes (forward and backward) of both learners
  std::uint64_t resident_bytes = 0;
  Evaluation evaluation;  // the last one; version 0: none yet
};

class Metrics {
 public:
  Metrics();
  ~Metrics();

  std::string text() const;  // Prometheus exposition format 0.0.4

  void policy_version(Version version);
  Version policy_version() const;
  void value_version(std::uint64_t version);
  void reward_spec(std::uint64_t version);
  void preference_shift(std::uint64_t version);                          // begins to measure the recovery
  void lifetime_trained(std::uint64_t count);                            // of the ledger: survives restarts
  void tokens_generated(std::uint64_t prompt, std::uint64_t generated);  // increments
  void judged(const Lag& lag, std::size_t tokens, bool trained);  // policy_lag_versions, once a token of each stage
  void reward_lag(std::uint64_t scored_by);  // a trained trajectory's spec version; the lag is to the one in force
  void outcome(Outcome outcome, std::size_t action_tokens);      // once a trajectory, when it is known
  void stages(const StageSeconds& seconds);                      // once a trajectory
  void reward(double reward, std::uint64_t scored_by);           // histogram, mean of the last 128, recovery
  void gate_decision(const char* decision, const char* reason);  // grant|wait|reject, and why
  void gate(int capacity, int running, int queued, int queue_capacity);
  void value_step(double seconds, double gradient_norm, double learning_rate);
  void value_loss(double loss);
  void policy_step(const StepReport& report, double learning_rate, double update_seconds, double masked_low_tokens,
                   double masked_high_tokens);
  void explained_variance(double ratio);  // of a batch's values before their update; NaN where undefined
  void step_skipped(const char* learner);
  void replica_wait(const char* learner, double seconds);
  void guard_alarm();
  void evaluated(const Evaluation& evaluation);
  void publish(bool ok, double seconds, double pause_seconds);
  void environment_error(const std::string& environment, const char* kind);
  // An application's turn: seconds until its first token, from one to the next, and in all.
  void served(double first_token, double each_token, double whole);
  void canary(bool good);  // what the ratings say of the newest policy
  void good_policy(Version version);
  void feedback(int code);               // the answer a reward got
  void live_lessons(std::size_t count);  // that wait for a permit
  void actor_restart(const char* actor);
  void mailbox(const char* actor, std::size_t waiting);
  void degraded(bool is);  // the ledger cannot be written
  void checkpoint(bool ok, double seconds);
  void rolled_back();
  void ledger_commit(double seconds, std::size_t records);
  void http(const char* route, const char* method, int code, double seconds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t resident_bytes();  // of this process, now

}  // namespace millrace
