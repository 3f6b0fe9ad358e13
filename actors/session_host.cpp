#include "actors/session_host.hpp"

#include <caf/send.hpp>

#include "actors/exceptions.hpp"
#include "actors/session.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

using Self = SessionHostActor::stateful_pointer<SessionHostState>;

void seat_newest(Self self) {
  const auto& setup = self->state.setup;
  const auto watch = std::make_shared<SessionWatch>();
  const SessionActor actor = environment_waits(setup->settings.environment.name)
                                 ? self->spawn<caf::monitored + caf::detached>(session, setup, watch)
                                 : self->spawn<caf::monitored>(session, setup, watch);
  self->state.newest = actor.id();
  self->state.seats.emplace(actor.id(), SessionHostState::Seat{actor, watch});
  self->send(actor, start_atom_v);
}

// Ends a session that may not be able to do it itself any more. If ever it comes back, it ends.
void leave(const SessionSetup& setup, const SessionActor& session, TrajectoryId id, Outcome outcome,
           const char* reason) {
  caf::anon_send_exit(session, caf::exit_reason::kill);
  FinishedSession lost;
  lost.trajectory.id = id;
  lost.trajectory.environment = setup.settings.environment.name;
  lost.outcome = outcome;
  lost.reason = reason;
  caf::anon_send(setup.permits, submit_atom_v, std::move(lost));
}

// Sessions beyond their deadline are told so; one that does not even hear it hangs in its environment and cannot be
// stopped, only left. A timer of each session's own would keep CAF's memory of it until the deadline, long after its
// end.
void end_overdue(Self self) {
  constexpr double patience = 2;  // seconds beyond the deadline
  const SessionSetup& setup = *self->state.setup;
  const double deadline = setup.settings.environment.deadline_s;
  const auto now = self->clock().now();
  std::erase_if(self->state.seats, [&](const auto& entry) {
    const SessionHostState::Seat& seat = entry.second;
    const SessionWatch::Running running = seat.watch->look();
    const double age = std::chrono::duration<double>(now - running.since).count();
    if (running.id == 0 || age < deadline) return false;
    if (age < deadline + patience) {
      self->send(seat.session, expire_atom_v, running.id);
      return false;
    }
    setup.metrics->environment_error(setup.settings.environment.name, "timeout");
    leave(setup, seat.session, running.id, Outcome::expired, "hangs beyond its deadline");
    return true;
  });
}

}  // namespace

const char* SessionHostState::name = "session_host";

SessionHostState::~SessionHostState() {
  for (const auto& [actor, seat] : seats) {
    leave(*setup, seat.session, seat.watch->look().id, Outcome::aborted, "whoever kept the session died");
  }
}

SessionHostActor::behavior_type session_host(Self self, std::shared_ptr<const SessionSetup> setup) {
  die_of_exceptions(self, SessionHostState::name);
  self->state.setup = setup;
  self->monitor(setup->permits);
  self->set_down_handler([self, setup](const caf::down_msg& down) {
    if (down.source == setup->permits.address()) return self->quit(down.reason);
    const auto seat = self->state.seats.extract(down.source.id());
    if (!seat) return;  // it was left
    if (down.reason) {
      const TrajectoryId id = seat.mapped().watch->look().id;
      log_warning("session_host", "session " + std::to_string(id) + " died: " + caf::to_string(down.reason));
      setup->metrics->actor_restart("session");
    }
    if (down.source.id() == self->state.newest) seat_newest(self);
  });
  return {
      [self](start_atom) {
        seat_newest(self);
        self->send(self, expire_atom_v);
      },
      [self](permit_atom) { seat_newest(self); },
      [self](expire_atom) {
        end_overdue(self);
        self->delayed_send(self, std::chrono::seconds(1), expire_atom_v);
      },
  };
}

}  // namespace millrace
