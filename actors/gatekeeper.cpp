#include "actors/gatekeeper.hpp"

#include <chrono>

#include "actors/exceptions.hpp"
#include "actors/mailbox.hpp"

namespace millrace {

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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
  while (!waiting_learners.empty()) {
    Taken taken = gate->take(waiting_learners.front().max, seconds_now());
    if (taken.trajectories.empty() && !taken.last) break;
    waiting_learners.front().promise.deliver(std::move(taken));
    waiting_learners.pop_front();
  }
  while (!waiting_sessions.empty() && gate->may_start()) {
    waiting_sessions.front().deliver(gate->acquire());
    waiting_sessions.pop_front();
  }
}

GatekeeperActor::behavior_type gatekeeper(GatekeeperActor::stateful_pointer<GatekeeperState> self,
                                          std::shared_ptr<Ledger> ledger, Settings settings, Metrics* metrics) {
  die_of_exceptions(self, GatekeeperState::name);
  auto& state = self->state;
  state.gate = std::make_unique<Gatekeeper>(settings, Version{0}, std::move(*ledger), *metrics);
  // A step that waits for stragglers is looked at again once a second; max_wait_s is seconds to minutes.
  self->delayed_send(self, std::chrono::seconds(1), expire_atom_v);
  return {
      [self](permit_atom) {
        auto promise = self->make_response_promise<TrajectoryId>();
        if (const TrajectoryId id = self->state.gate->acquire()) {
          promise.deliver(id);
        } else {
          self->state.waiting_sessions.push_back(promise);
        }
        return promise;
      },
      [self, metrics](submit_atom, FinishedSession& session) {
        report_mailbox(self, *metrics);
        self->state.gate->submit(std::move(session.trajectory), session.outcome, session.reason);
        self->state.serve();
      },
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
        const Gatekeeper& gate = *self->state.gate;
        return GateStatus{gate.ledger().counts(), gate.capacity(), gate.running(), gate.learner_version()};
      },
      [self](spec_atom, const SpecShift& shift) {
        self->state.gate->shift(*shift.spec, shift.version, shift.in_flight, shift.at);
        self->state.serve();
      },
      [self](list_atom, const TrajectoryQuery& query) { return rows_for(self->state.gate->ledger(), query); },
      [self, metrics](expire_atom) {
        report_mailbox(self, *metrics);
        self->state.gate->expire_groups(seconds_now());
        self->state.serve();
        self->delayed_send(self, std::chrono::seconds(1), expire_atom_v);
      },
  };
}

}  // namespace millrace
