#include "actors/policy_learner.hpp"

#include <algorithm>

#include "actors/exceptions.hpp"
#include "actors/mailbox.hpp"
#include "runtime/give_way.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

using Self = PolicyLearnerActor::stateful_pointer<PolicyLearnerState>;

void accumulate(PolicyLearnerState& state, const LearnerSetup& setup, ValuedPack& pack) {
  const BusyTimer busy(setup.activity->policy_busy_ns);
  std::vector<Sequence> sequences;
  std::vector<std::vector<float>> advantages;
  for (ValuedTrajectory& valued : pack.trajectories) {
    sequences.push_back(valued.trajectory->sequence);
    advantages.push_back(std::move(valued.advantages));
    state.batch_tokens += valued.trajectory->sequence.tokens.size();
  }
  GiveWay give_way(*setup.activity, setup.settings.live.priority);
  if (!sequences.empty()) state.mini_batches->add(sequences, advantages);
  for (ValuedTrajectory& valued : pack.trajectories) {
    StageSeconds seconds = valued.trajectory->seconds;
    seconds.queue = valued.queue_seconds;
    seconds.value = valued.value_seconds;
    seconds.learn = busy.seconds() / static_cast<double>(sequences.size());
    setup.metrics->stages(seconds);
    state.batch.push_back(std::move(valued));
  }
  give_way.end();
}

// What the batch itself says, before anything else is known of the step.
StepReport report_of(const std::vector<ValuedTrajectory>& batch, Version learner) {
  StepReport report;
  report.trajectories = batch.size();
  double lag_sum = 0;
  for (const ValuedTrajectory& valued : batch) {
    const Trajectory& trajectory = *valued.trajectory;
    report.reward_mean += trajectory.score.total / static_cast<double>(batch.size());
    if (const std::uint64_t spec = trajectory.score.spec_version) {
      report.spec_oldest = report.spec_oldest == 0 ? spec : std::min(report.spec_oldest, spec);
      report.spec_newest = std::max(report.spec_newest, spec);
    }
    for (std::size_t t = 0; t < trajectory.versions.size(); ++t) {
      if (!trajectory.sequence.mask[t]) continue;
      const Version lag = lag_of(learner, trajectory.versions[t], trajectory.versions[t]).total;
      lag_sum += static_cast<double>(lag);
      report.lag_max = std::max(report.lag_max, lag);
      ++report.trained_tokens;
    }
  }
  if (report.trained_tokens > 0) report.lag_mean = lag_sum / static_cast<double>(report.trained_tokens);
  return report;
}

}  // namespace

const char* PolicyLearnerState::name = "policy_learner";

PolicyLearnerActor::behavior_type policy_learner(Self self, LearnerSetup setup, GatekeeperActor gatekeeper,
                                                 GeneratorActor generator, ObserverActor observer) {
  die_of_exceptions(self, PolicyLearnerState::name);
  if (setup.settings.live.priority > 0) give_way_on_cores();
  use_threads(setup.threads);
  self->state.learner = std::make_unique<PolicyLearner>(*setup.model, setup.settings.policy, setup.settings.recipe,
                                                        setup.policy_replicas);
  self->state.mini_batches.emplace(*self->state.learner, setup.settings.recipe, setup.settings.pack);
  self->state.version = version_of(*setup.model->weights);
  const auto learn = [=](learn_atom, ValuedPack& pack) {
    auto& state = self->state;
    report_mailbox(self, *setup.metrics);
    accumulate(state, setup, pack);
    if (!pack.last) return;

    const BusyTimer busy(setup.activity->policy_busy_ns);
    StepReport report = report_of(state.batch, state.version);
    const PolicyStep step = state.mini_batches->step(state.version + 1);
    setup.activity->learner_token_passes += state.batch_tokens;
    state.batch.clear();
    state.batch_tokens = 0;
    if (!step.weights) {
      log_warning("policy_learner", "step skipped: " + step.skipped);
      setup.metrics->step_skipped("policy");
      self->send(gatekeeper, skipped_atom_v, step.skipped);
      return;
    }
    ++state.version;
    // The generator has the new weights before the gatekeeper counts with them: no session that is admitted for this
    // version can be sampled by an older one.
    prepare(*step.weights, setup.settings.generation.dtype, setup.settings.generation.device);
    setup.latest->put(step.weights);
    self->send(generator, weights_atom_v, step.weights);
    self->send(gatekeeper, published_atom_v, state.version);

    const PolicySums& sums = step.sums;
    const double tokens = std::max(1.0, sums.tokens);
    report.policy_version = state.version;
    report.masked_share_low = sums.masked_low / tokens;
    report.masked_share_high = sums.masked_high / tokens;
    report.effective_sample_size = sums.effective_sample_size_ratio();
    report.entropy = sums.entropy / tokens;
    report.kl = sums.kl / tokens;
    report.ratio_low = sums.ratios.quantile(0.01);
    report.ratio_median = sums.ratios.quantile(0.5);
    report.ratio_high = sums.ratios.quantile(0.99);
    report.policy_gradient_norm = step.gradient_norm;
    setup.metrics->policy_version(state.version);
    setup.metrics->policy_step(report, state.learner->learning_rate(), busy.seconds(), sums.masked_low,
                               sums.masked_high);
    self->send(observer, step_atom_v, report);
  };
  const auto save = [self](save_atom) { return LearnerPart{self->state.learner->image(), self->state.version, 0}; };
  const auto restore = [=](restore_atom, const StoredCheckpointPtr& checkpoint, Version version) -> std::string {
    auto& state = self->state;
    const expected<SnapshotPtr> restored = state.learner->restore(checkpoint->policy.tensors(), version);
    if (!restored) return restored.error().message;
    state.mini_batches.emplace(*state.learner, setup.settings.recipe, setup.settings.pack);
    state.version = version;
    state.batch.clear();
    state.batch_tokens = 0;
    prepare(**restored, setup.settings.generation.dtype, setup.settings.generation.device);
    setup.latest->put(*restored);
    self->send(generator, weights_atom_v, *restored);
    setup.metrics->policy_version(version);
    return {};
  };
  const auto slow_down = [self](guard_atom, double factor) {
    self->state.learner->slow_down(factor);
    log_warning("policy_learner",
                "the learning rate is " + std::to_string(self->state.learner->learning_rate()) + " now");
  };
  return {learn, save, restore, slow_down};
}

}  // namespace millrace
