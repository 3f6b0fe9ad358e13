#include "actors/evaluator.hpp"

#include "actors/exceptions.hpp"
#include "actors/session.hpp"
#include "actors/timespan.hpp"

namespace millrace {

namespace {

using Self = EvaluatorActor::stateful_pointer<EvaluatorState>;

constexpr TrajectoryId first_task = TrajectoryId{1} << 40;  // episodes that training does not come to

void answer_when_done(Self self) {
  auto& state = self->state;
  if (!state.asked || !state.live.empty()) return;
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

}  // namespace

const char* EvaluatorState::name = "evaluator";

EvaluatorActor::behavior_type evaluator(Self self, std::shared_ptr<const Model> start, SessionSetup sessions,
                                        int threads) {
  die_of_exceptions(self, EvaluatorState::name);
  use_threads(threads);
  self->state.start_policy.emplace(start->weights);
  sessions.submissions = caf::actor_cast<SubmissionsActor>(self);
  sessions.settings.recipe.grouping.size = 1;  // a task each
  const auto setup = std::make_shared<const SessionSetup>(std::move(sessions));
  self->set_down_handler([self](const caf::down_msg& down) {
    auto& state = self->state;
    if (state.live.erase(down.source.id()) == 0) return;
    if (down.reason) ++state.failed;  // else it has submitted its trajectory itself, as expired
    answer_when_done(self);
  });
  self->set_exit_handler([self](const caf::exit_msg& exit) {
    for (const auto& [id, session] : self->state.live) self->send_exit(session, exit.reason);
    self->quit(exit.reason);
  });
  return {
      [self](done_atom) {
        auto over = self->state.live.extract(self->current_sender()->id());
        if (over) self->send_exit(over.mapped(), caf::exit_reason::user_shutdown);
        answer_when_done(self);
      },
      [self, setup](evaluate_atom, Version version) {
        auto& state = self->state;
        auto promise = self->make_response_promise<Evaluation>();
        if (state.asked) {  // one at a time: this one is not made
          promise.deliver(Evaluation{});
          return promise;
        }
        state.asked = promise;
        state.version = version;
        state.finished.clear();
        state.failed = 0;
        for (int task = 0; task < setup->settings.evaluation.tasks; ++task) {
          const TrajectoryId id = first_task + static_cast<TrajectoryId>(task);
          const SessionActor started = self->spawn<caf::monitored>(session, setup);
          state.live.emplace(started.id(), started);
          self->send(started, start_atom_v, id);
          self->delayed_send(started, timespan_of(setup->settings.environment.deadline_s), expire_atom_v);
        }
        return promise;
      },
      [self](submit_atom, FinishedSession& session) {
        auto& state = self->state;
        if (session.outcome == Outcome::queued) {
          state.finished.push_back(std::move(session.trajectory));
        } else {
          ++state.failed;
        }
      },
  };
}

}  // namespace millrace
