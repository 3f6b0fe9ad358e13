#include "actors/session_host.hpp"

#include "actors/exceptions.hpp"
#include "actors/session.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

using Self = SessionHostActor::stateful_pointer<SessionHostState>;

// Ends a session that cannot do it itself any more.
void give_up(Self self, const std::shared_ptr<const SessionSetup>& setup, TrajectoryId id, Outcome outcome,
             const char* reason) {
  FinishedSession lost;
  lost.trajectory.id = id;
  lost.trajectory.environment = setup->settings.environment.name;
  lost.outcome = outcome;
  lost.reason = reason;
  self->send(setup->gatekeeper, submit_atom_v, std::move(lost));
}

// Sessions beyond their deadline are told so; one that does not even hear it hangs in its environment and cannot be
// stopped, only left. A timer of each session's own would keep CAF's memory of it until the deadline, long after its
// end.
void end_overdue(Self self, const std::shared_ptr<const SessionSetup>& setup) {
  constexpr double patience = 2;  // seconds beyond the deadline
  const auto now = self->clock().now();
  std::erase_if(self->state.live, [&](const auto& entry) {
    const SessionHostState::Live& live = entry.second;
    const double age = std::chrono::duration<double>(now - live.since).count();
    if (age < setup->settings.environment.deadline_s) return false;
    if (age < setup->settings.environment.deadline_s + patience) {
      self->send(live.session, expire_atom_v);
      return false;
    }
    setup->metrics->environment_error(setup->settings.environment.name, "timeout");
    give_up(self, setup, live.id, Outcome::expired, "hangs beyond its deadline");
    self->send_exit(live.session, caf::exit_reason::kill);  // if ever it comes back
    return true;
  });
}

SessionActor rested(Self self, const std::shared_ptr<const SessionSetup>& setup) {
  auto& resting = self->state.resting;
  if (!resting.empty()) {
    SessionActor last = std::move(resting.back());
    resting.pop_back();
    return last;
  }
  return environment_waits(setup->settings.environment.name)
             ? self->spawn<caf::monitored + caf::detached>(session, setup)
             : self->spawn<caf::monitored>(session, setup);
}

void start_session(Self self, const std::shared_ptr<const SessionSetup>& setup, TrajectoryId id) {
  const SessionActor actor = rested(self, setup);
  self->state.live.emplace(actor.id(), SessionHostState::Live{actor, id, self->clock().now()});
  self->send(actor, start_atom_v, id);
}

// So many asks wait at the gate at any time: with one, each permit would be a way there and back after the one before.
constexpr int asks_ahead = 64;

// Every permit that is given is followed by the next ask.
void ask_for_permit(Self self, const std::shared_ptr<const SessionSetup>& setup) {
  self->request(setup->gatekeeper, caf::infinite, permit_atom_v)
      .then(
          [self, setup](TrajectoryId id) {
            start_session(self, setup, id);
            ask_for_permit(self, setup);
          },
          [self](const caf::error& gone) { self->quit(gone); });
}

}  // namespace

const char* SessionHostState::name = "session_host";

SessionHostActor::behavior_type session_host(Self self, std::shared_ptr<const SessionSetup> setup) {
  die_of_exceptions(self, SessionHostState::name);
  self->set_down_handler([self, setup](const caf::down_msg& down) {
    std::erase_if(self->state.resting, [&](const SessionActor& resting) { return resting.id() == down.source.id(); });
    const auto found = self->state.live.extract(down.source.id());
    if (!found || !down.reason) return;  // it is not waited for, or has submitted its trajectory itself
    const TrajectoryId id = found.mapped().id;
    log_warning("session_host", "session " + std::to_string(id) + " died: " + caf::to_string(down.reason));
    setup->metrics->actor_restart("session");
    give_up(self, setup, id, Outcome::env_failed, "session died");
  });
  return {
      [self](done_atom) {
        auto over = self->state.live.extract(self->current_sender()->id());
        if (over) self->state.resting.push_back(std::move(over.mapped().session));
      },
      [self, setup](start_atom) {
        for (int ask = 0; ask < asks_ahead; ++ask) ask_for_permit(self, setup);
        self->send(self, expire_atom_v);
      },
      [self, setup](expire_atom) {
        end_overdue(self, setup);
        self->delayed_send(self, std::chrono::seconds(1), expire_atom_v);
      },
  };
}

}  // namespace millrace
