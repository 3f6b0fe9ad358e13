#include "actors/observer.hpp"

#include "actors/exceptions.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

using Self = ObserverActor::stateful_pointer<ObserverState>;

template <class Report>
void ask_guard(Self self, const ObserverSetup& setup, const Report& report) {
  auto& state = self->state;
  const std::string wrong = state.guard ? state.guard->judge(report) : "";
  if (wrong.empty()) return;
  setup.metrics->guard_alarm();
  if (setup.live) self->send(setup.live, guard_atom_v);
  log_warning("guard", wrong + " (version " + std::to_string(state.latest.policy_version) + ", last good one " +
                           std::to_string(state.guard->last_good()) + ")");
  if (setup.guard.action == "stop") {
    log_warning("guard", "no further version is published: `millrace resume` goes on");
    self->request(setup.gatekeeper, caf::infinite, mode_atom_v, GateMode::paused)
        .then([](const GateStatus&) {}, [](const caf::error& error) { log_warning("guard", caf::to_string(error)); });
  } else if (setup.guard.action == "rollback") {
    self->request(setup.gatekeeper, caf::infinite, rollback_atom_v, guard_atom_v, state.guard->last_good())
        .then(
            [self, setup](const CheckpointReply& reply) {
              if (!reply.error.empty()) return log_warning("guard", "no rollback: " + reply.error);
              self->send(setup.policy, guard_atom_v, setup.guard.slow_down);
            },
            [](const caf::error& error) { log_warning("guard", "no rollback: " + caf::to_string(error)); });
  }
}

void evaluate(Self self, const ObserverSetup& setup, Version version) {
  if (setup.evaluation.every == 0 || version % static_cast<Version>(setup.evaluation.every) != 0) return;
  self->request(setup.evaluator, caf::infinite, evaluate_atom_v, version)
      .then(
          [self, setup](const Evaluation& evaluation) {
            if (evaluation.version == 0) return;  // the one before was still going on
            self->state.evaluation = evaluation;
            setup.metrics->evaluated(evaluation);
            ask_guard(self, setup, evaluation);
          },
          [](const caf::error& error) { log_warning("observer", "no evaluation: " + caf::to_string(error)); });
}

void show(Self self, const ObserverSetup& setup) {
  auto& state = self->state;
  while (!state.policy.empty() && !state.value.empty()) {
    StepReport report = state.policy.front();
    const ValueReport& value = state.value.front();
    report.value_loss = value.loss;
    report.value_gradient_norm = value.gradient_norm;
    report.explained_variance = value.explained_variance;
    state.policy.pop_front();
    state.value.pop_front();
    state.measure(report, *setup.activity);
    report.evaluation = state.evaluation;
    state.latest = report;
    setup.on_step(report);
    ask_guard(self, setup, report);
    evaluate(self, setup, report.policy_version);
  }
}

double share(std::uint64_t nanoseconds, std::uint64_t& before, double seconds) {
  const double result = static_cast<double>(nanoseconds - before) / 1e9 / seconds;
  before = nanoseconds;
  return result;
}

}  // namespace

const char* ObserverState::name = "observer";

void ObserverState::start(const Activity& activity) {
  since = std::chrono::steady_clock::now();
  generated = activity.generated_tokens;
  passes = activity.learner_token_passes;
  generator_ns = activity.generator_busy_ns;
  policy_ns = activity.policy_busy_ns;
  value_ns = activity.value_busy_ns;
}

void ObserverState::measure(StepReport& report, const Activity& activity) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - since).count();
  since = now;
  report.step_seconds = seconds;
  report.generated_tokens_per_second = static_cast<double>(activity.generated_tokens - generated) / seconds;
  report.trained_tokens_per_second = static_cast<double>(report.trained_tokens) / seconds;
  report.learner_token_passes = activity.learner_token_passes - passes;
  report.generator_busy = share(activity.generator_busy_ns, generator_ns, seconds);
  report.policy_busy = share(activity.policy_busy_ns, policy_ns, seconds);
  report.value_busy = share(activity.value_busy_ns, value_ns, seconds);
  report.resident_bytes = resident_bytes();
  generated = activity.generated_tokens;
  passes = activity.learner_token_passes;
}

ObserverActor::behavior_type observer(Self self, ObserverSetup setup) {
  die_of_exceptions(self, ObserverState::name);
  if (setup.guard.action != "off") self->state.guard.emplace(setup.guard);
  self->state.start(*setup.activity);
  return {
      [=](step_atom, const StepReport& report) {
        self->state.policy.push_back(report);
        show(self, setup);
      },
      [=](step_atom, const ValueReport& report) {
        if (report.policy_steps) {
          self->state.value.push_back(report);
          show(self, setup);
        } else {
          self->state.start(*setup.activity);  // a value-only step belongs to no policy step
        }
      },
      [self](start_atom) {
        self->state.policy.clear();
        self->state.value.clear();
      },
      [self](status_atom) { return self->state.latest; },
  };
}

}  // namespace millrace
