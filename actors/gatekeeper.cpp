#include "actors/gatekeeper.hpp"

#include <chrono>
#include <cmath>

#include <caf/exit_reason.hpp>

#include "actors/exceptions.hpp"
#include "actors/mailbox.hpp"
#include "runtime/clock.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

nlohmann::json rows_for(const Ledger& ledger, const TrajectoryQuery& query) {
  if (query.id != 0) {
    auto row = ledger.find(query.id);
    return row ? *row : nlohmann::json();
  }
  return ledger.list(query.state.empty() ? std::nullopt : std::optional(query.state), query.limit);
}

}  // namespace

const char* GatekeeperState::name = "gatekeeper";

void GatekeeperState::serve() {
  // While learners go back nothing is handed out: it would be learned from by one of them before and by the other
  // after.
  const bool going_back = working && working->restore;
  while (!waiting_learners.empty() && !going_back) {
    Taken taken = gate->take(waiting_learners.front().max, steady_now());
    if (taken.trajectories.empty() && !taken.last) break;
    waiting_learners.front().promise.deliver(std::move(taken));
    waiting_learners.pop_front();
  }
  while (permits.wanted() && gate->may_start()) permits.give(gate->acquire());
  for (std::size_t refused = permits.newly_waiting(); refused > 0; --refused) gate->acquire();  // it counts why
  give_order();
  answer_drains();
}

void GatekeeperState::submit(GatekeeperActor::stateful_pointer<GatekeeperState> self, FinishedSession& session) {
  // One whose permit has come back already, as its actor died or hung: it is as if the session had never been.
  if (!permits.take_back(session.trajectory.id)) return;
  // Whatever else has come in by the time this message to itself is read shares one commit with it.
  if (arrived.empty()) self->send(self, commit_atom_v);
  arrived.push_back(std::move(session));
}

void GatekeeperState::commit() {
  gate->submit(std::exchange(arrived, {}));
  serve();
}

Gatekeeper& GatekeeperState::up_to_date() {
  if (!arrived.empty()) commit();
  return *gate;
}

void GatekeeperState::asker_died(const caf::down_msg& down, const std::string& environment) {
  for (const Permits::Lost& lost : permits.bury(down.source)) {
    const bool of_live = lost.turn == Permits::Turn::live;
    const bool of_itself = !of_live && down.reason != caf::exit_reason::kill;  // not with its host
    FinishedSession& session = arrived.emplace_back();
    session.trajectory.id = lost.id;
    session.trajectory.environment = of_live ? live_environment : environment;
    session.outcome = of_itself ? Outcome::env_failed : Outcome::aborted;
    session.reason = of_itself ? "session died" : "whoever kept the session died";
  }
  commit();
}

GateStatus GatekeeperState::status() const {
  const auto checkpoints = gate->ledger().checkpoints();
  const CheckpointRow newest = checkpoints.empty() ? CheckpointRow{} : checkpoints.front();
  CheckpointRow best = newest;
  for (const CheckpointRow& row : checkpoints) {
    const bool comparable = row.reward_spec == newest.reward_spec;
    if (comparable && (row.reward > best.reward || std::isnan(best.reward))) best = row;
  }
  return {gate->ledger().counts(), gate->capacity(), gate->running(), gate->learner_version(),
          gate->state(),           gate->problem(),  newest,          best};
}

GatekeeperActor::behavior_type gatekeeper(GatekeeperActor::stateful_pointer<GatekeeperState> self,
                                          std::shared_ptr<Ledger> ledger, Version start, std::uint64_t steps,
                                          Settings settings, Metrics* metrics) {
  die_of_exceptions(self, GatekeeperState::name);
  auto& state = self->state;
  state.gate = std::make_unique<Gatekeeper>(settings, start, std::move(*ledger), *metrics);
  state.replicas = settings.replicas.count;
  if (steps > 0) state.gate->limit_steps(steps);
  // A step that waits for stragglers is looked at again once a second; max_wait_s is seconds to minutes.
  self->delayed_send(self, std::chrono::seconds(1), expire_atom_v);
  self->set_down_handler([self, environment = settings.environment.name](const caf::down_msg& down) {
    self->state.asker_died(down, environment);
  });
  return {
      [self](permit_atom) {
        auto promise = self->state.permits.ask(self, Permits::Turn::first);
        self->state.serve();
        return promise;
      },
      [self, metrics](submit_atom, FinishedSession& session) {
        report_mailbox(self, *metrics);
        self->state.submit(self, session);
      },
      [self, metrics](submit_atom, permit_atom, FinishedSession& session) {
        report_mailbox(self, *metrics);
        self->state.submit(self, session);
        return self->state.permits.ask(self, Permits::Turn::next);
      },
      [self](permit_atom, live_atom) {
        auto promise = self->state.permits.ask(self, Permits::Turn::live);
        self->state.serve();
        return promise;
      },
      [self](commit_atom) { self->state.commit(); },
      [self](take_atom, int max) {
        auto promise = self->make_response_promise<Taken>();
        self->state.waiting_learners.push_back({promise, max});
        self->state.serve();
        return promise;
      },
      [self](published_atom, Version version) {
        self->state.gate->published(version);
        self->state.serve();
      },
      [self](skipped_atom, const std::string& reason) {
        self->state.gate->skipped(reason);
        self->state.serve();
      },
      [self](status_atom) {
        self->state.up_to_date();
        return self->state.status();
      },
      [self](spec_atom, const SpecShift& shift) {
        self->state.up_to_date().shift(*shift.spec, shift.version, shift.in_flight, shift.at);
        self->state.serve();
      },
      [self](list_atom, const TrajectoryQuery& query) { return rows_for(self->state.up_to_date().ledger(), query); },
      [self](mode_atom, GateMode mode) {
        if (self->state.gate->mode() != GateMode::draining) self->state.gate->set_mode(mode);
        self->state.serve();
        return self->state.status();
      },
      [self](drain_atom) {
        auto promise = self->make_response_promise<bool>();
        self->state.gate->set_mode(GateMode::draining);
        self->state.last_checkpoint_failed = false;
        self->state.drains_wanted.push_back(promise);
        self->state.serve();
        return promise;
      },
      [self](checkpoint_atom) {
        auto promise = self->make_response_promise<CheckpointReply>();
        self->state.checkpoints_wanted.push_back(promise);
        self->state.serve();
        return promise;
      },
      [self](rollback_atom, Version version) {
        auto promise = self->make_response_promise<CheckpointReply>();
        self->state.want_rollback(version, promise);
        self->state.serve();
        return promise;
      },
      [self](rollback_atom, guard_atom, Version at_most) {
        auto promise = self->make_response_promise<CheckpointReply>();
        Version version = at_most;
        // The newest one that is not later, or the oldest there is.
        for (const CheckpointRow& row : self->state.gate->ledger().checkpoints()) {  // newest first
          version = row.policy_version;
          if (version <= at_most) break;
        }
        self->state.want_rollback(version, promise);
        self->state.serve();
        return promise;
      },
      [self](recover_atom) { return self->state.recover(); },
      [self](order_atom) {
        self->state.checkpointer_begins();
        self->state.checkpointer = self->make_response_promise<CheckpointOrder>();
        self->state.checkpointer_waits = true;
        auto promise = self->state.checkpointer;
        self->state.serve();
        return promise;
      },
      [self](held_atom) {
        self->state.gate->hold(false);
        self->state.serve();
      },
      [self](done_atom, const CheckpointDone& done) {
        self->state.order_done(done);
        self->state.serve();
        std::vector<std::string> names;
        for (const CheckpointRow& row : self->state.gate->ledger().checkpoints()) names.push_back(row.name);
        return names;
      },
      [self](forget_atom, const nlohmann::json& ids) {
        return self->state.up_to_date().forget(ids.get<std::vector<TrajectoryId>>());
      },
      [self, metrics](expire_atom) {
        report_mailbox(self, *metrics);
        self->state.gate->retry();
        self->state.gate->prune(unix_now());
        self->state.gate->expire_groups(steady_now());
        self->state.serve();
        self->delayed_send(self, std::chrono::seconds(1), expire_atom_v);
      },
  };
}

}  // namespace millrace
