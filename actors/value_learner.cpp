#include "actors/value_learner.hpp"

#include <chrono>
#include <cmath>

#include "actors/exceptions.hpp"
#include "actors/mailbox.hpp"
#include "runtime/clock.hpp"
#include "runtime/give_way.hpp"

namespace millrace {

namespace {

using Self = ValueLearnerActor::stateful_pointer<ValueLearnerState>;

struct Peers {
  GatekeeperActor gatekeeper;
  PolicyLearnerActor policy;
  ObserverActor observer;
};

// Seconds from the end of its session until now.
double queue_seconds(const Trajectory& trajectory) {
  const StageSeconds& spent = trajectory.seconds;
  return std::max(0.0, unix_now() - trajectory.created - spent.generate - spent.environment - spent.score);
}

ValuedPack value(ValueLearnerState& state, const LearnerSetup& setup, const Taken& taken) {
  const BusyTimer busy(setup.activity->value_busy_ns);
  ValuedPack pack;
  pack.last = taken.last;
  std::vector<Sequence> sequences;
  for (const TrajectoryPtr& trajectory : taken.trajectories) {
    pack.trajectories.push_back({trajectory, {}, queue_seconds(*trajectory), 0});
    sequences.push_back(trajectory->scored_sequence());
    state.batch_tokens += trajectory->sequence.tokens.size();
  }
  if (sequences.empty()) return pack;
  if (state.baseline) {
    for (ValuedTrajectory& valued : pack.trajectories) {
      const Trajectory& t = *valued.trajectory;
      valued.advantages = state.baseline->advantages(t.sequence, t.shaped_reward, t.group_rewards);
    }
    return pack;
  }
  GiveWay give_way(*setup.activity, setup.settings.live.priority);
  std::vector<Valuation> valuations = state.learner->arrive(sequences);
  for (std::size_t i = 0; i < valuations.size(); ++i) {
    pack.trajectories[i].advantages = std::move(valuations[i].advantages);
    pack.trajectories[i].value_seconds = busy.seconds() / static_cast<double>(valuations.size());
  }
  give_way.end();
  return pack;
}

ValueReport update(ValueLearnerState& state, const LearnerSetup& setup) {
  ++state.version;
  if (state.baseline) {
    state.baseline->step();
    return {.explained_variance = std::nan(""), .policy_steps = true};
  }
  const BusyTimer busy(setup.activity->value_busy_ns);
  GiveWay give_way(*setup.activity, setup.settings.live.priority);
  const ValueStep step = state.learner->step([&] { give_way.next(); });
  setup.activity->learner_token_passes +=
      state.batch_tokens * static_cast<std::uint64_t>(setup.settings.value.updates_per_step);
  state.batch_tokens = 0;
  if (step.skipped) setup.metrics->step_skipped("value");
  setup.metrics->value_step(busy.seconds(), step.gradient_norm, setup.settings.value.lr);
  setup.metrics->value_loss(step.loss);
  setup.metrics->explained_variance(step.explained_variance);
  setup.metrics->value_version(state.version);
  return {step.loss, step.gradient_norm, step.explained_variance, busy.seconds(), true};
}

void pull(Self self, const std::shared_ptr<const LearnerSetup>& setup, const std::shared_ptr<const Peers>& peers) {
  self->request(peers->gatekeeper, caf::infinite, take_atom_v, setup->settings.pack)
      .then([self, setup, peers](const Taken& taken) {
        auto& state = self->state;
        const bool warming_up = state.warmup_left > 0;
        report_mailbox(self, *setup->metrics);
        ValuedPack pack = value(state, *setup, taken);
        if (!warming_up) self->send(peers->policy, learn_atom_v, std::move(pack));
        if (taken.last) {
          ValueReport report = update(state, *setup);
          report.policy_steps = !warming_up;
          self->send(peers->observer, step_atom_v, report);
          if (warming_up) {
            --state.warmup_left;
            self->send(peers->gatekeeper, skipped_atom_v, std::string("value-only step"));
          }
        }
        pull(self, setup, peers);
      });
}

}  // namespace

const char* ValueLearnerState::name = "value_learner";

ValueLearnerActor::behavior_type value_learner(Self self, LearnerSetup setup, GatekeeperActor gatekeeper,
                                               PolicyLearnerActor policy, ObserverActor observer) {
  die_of_exceptions(self, ValueLearnerState::name);
  if (setup.settings.live.priority > 0) give_way_on_cores();
  use_threads(setup.threads);
  const Baseline& baseline = setup.settings.recipe.baseline;
  if (baseline.kind == "value") {
    self->state.learner =
        std::make_unique<ValueLearner>(*setup.model, setup.settings.value, baseline, setup.value_replicas);
    self->state.warmup_left = setup.settings.value.warmup_steps;
    if (setup.pretrained) {
      const auto restored = self->state.learner->restore(setup.pretrained->tensors.tensors());
      if (!restored) throw std::runtime_error("value.path: " + restored.error().message);
    }
  } else {
    self->state.baseline = std::make_unique<RewardBaseline>(baseline);
  }
  const auto shared_setup = std::make_shared<const LearnerSetup>(std::move(setup));
  const auto peers = std::make_shared<const Peers>(Peers{gatekeeper, policy, observer});
  return {
      [=](start_atom) { pull(self, shared_setup, peers); },
      [self](save_atom) {
        auto& state = self->state;
        return LearnerPart{state.baseline ? state.baseline->image() : state.learner->image(), state.version,
                           state.warmup_left};
      },
      [=](restore_atom, const StoredCheckpointPtr& checkpoint) -> std::string {
        auto& state = self->state;
        const auto& image = checkpoint->value.tensors();
        const auto restored = state.baseline ? state.baseline->restore(image) : state.learner->restore(image);
        if (!restored) return restored.error().message;
        state.version = checkpoint->row.step;
        state.warmup_left = checkpoint->manifest.value("warmup_left", 0);
        state.batch_tokens = 0;
        shared_setup->metrics->value_version(state.version);
        return {};
      },
  };
}

}  // namespace millrace
