#include "actors/evaluator.hpp"

#include "actors/exceptions.hpp"

namespace millrace {

namespace {

using Self = EvaluatorActor::stateful_pointer<EvaluatorState>;

constexpr TrajectoryId first_task = TrajectoryId{1} << 40;  // episodes that training does not come to

// Permits for the tasks that have not begun, and the answer when all are done.
void serve(EvaluatorState& state) {
  if (!state.asked) return;
  while (state.begun < state.tasks && state.permits.wanted()) {
    state.permits.give(first_task + static_cast<TrajectoryId>(state.begun++));
  }
  if (static_cast<int>(state.finished.size()) + state.failed < state.tasks) return;
  std::vector<std::vector<float>> start_logp;
  for (const Trajectory& trajectory : state.finished) {
    start_logp.push_back(state.start_policy->log_probs(trajectory.sequence));
  }
  Evaluation evaluation = evaluation_of(state.finished, start_logp);
  evaluation.version = state.version;
  evaluation.failed = state.failed;
  state.asked->deliver(evaluation);
  state.asked.reset();
}

void submit(EvaluatorState& state, FinishedSession& session) {
  if (!state.permits.take_back(session.trajectory.id)) return;
  if (session.outcome == Outcome::queued) {
    state.finished.push_back(std::move(session.trajectory));
  } else {
    ++state.failed;
  }
  serve(state);
}

}  // namespace

const char* EvaluatorState::name = "evaluator";

EvaluatorActor::behavior_type evaluator(Self self, std::shared_ptr<const Model> start, SessionSetup sessions,
                                        int threads) {
  die_of_exceptions(self, EvaluatorState::name);
  use_threads(threads);
  self->state.start_policy.emplace(start->weights);
  self->state.tasks = sessions.settings.evaluation.tasks;
  sessions.permits = caf::actor_cast<PermitsActor>(self);
  sessions.settings.recipe.grouping.size = 1;  // a task each
  const auto setup = std::make_shared<const SessionSetup>(std::move(sessions));
  self->set_down_handler([self](const caf::down_msg& down) {
    self->state.failed += static_cast<int>(self->state.permits.bury(down.source).size());
    serve(self->state);
  });
  return {
      [self](permit_atom) {
        auto promise = self->state.permits.ask(self, Permits::Turn::first);
        serve(self->state);
        return promise;
      },
      [self](submit_atom, FinishedSession& session) { submit(self->state, session); },
      [self](submit_atom, permit_atom, FinishedSession& session) {
        auto promise = self->state.permits.ask(self, Permits::Turn::next);
        submit(self->state, session);
        return promise;
      },
      [self, setup](evaluate_atom, Version version) {
        auto& state = self->state;
        auto promise = self->make_response_promise<Evaluation>();
        if (state.asked) {  // one at a time: this one is not made
          promise.deliver(Evaluation{});
          return promise;
        }
        if (!state.host) {
          state.host = self->spawn<caf::linked>(session_host, setup);
          self->send(state.host, start_atom_v);
        }
        state.asked = promise;
        state.version = version;
        state.begun = state.failed = 0;
        state.finished.clear();
        serve(state);
        return promise;
      },
  };
}

}  // namespace millrace
