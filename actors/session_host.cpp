#include "actors/session_host.hpp"

#include "actors/exceptions.hpp"
#include "actors/session.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

using Self = SessionHostActor::stateful_pointer<SessionHostState>;

// No session outlives its host.
void end(Self self, const caf::error& reason) {
  for (const auto& [address, id] : self->state.live) self->send_exit(caf::actor_cast<caf::actor>(address), reason);
  self->quit(reason);
}

void ask_for_permit(Self self, const std::shared_ptr<const SessionSetup>& setup) {
  self->request(setup->gatekeeper, caf::infinite, permit_atom_v)
      .then(
          [self, setup](TrajectoryId id) {
            const SessionActor started = environment_waits(setup->settings.environment.name)
                                             ? self->spawn<caf::monitored + caf::detached>(session, setup, id)
                                             : self->spawn<caf::monitored>(session, setup, id);
            self->state.live.emplace(started.address(), id);
            self->send(started, start_atom_v);
            ask_for_permit(self, setup);
          },
          [self](const caf::error& gone) { end(self, gone); });
}

}  // namespace

const char* SessionHostState::name = "session_host";

SessionHostActor::behavior_type session_host(Self self, std::shared_ptr<const SessionSetup> setup) {
  die_of_exceptions(self, SessionHostState::name);
  self->set_down_handler([self, setup](const caf::down_msg& down) {
    const auto found = self->state.live.find(down.source);
    if (found == self->state.live.end()) return;
    const TrajectoryId id = found->second;
    self->state.live.erase(found);
    if (!down.reason) return;  // it has submitted its trajectory itself
    log_warning("session_host", "session " + std::to_string(id) + " died: " + caf::to_string(down.reason));
    setup->metrics->actor_restart("session");
    FinishedSession lost;
    lost.trajectory.id = id;
    lost.trajectory.environment = setup->settings.environment.name;
    lost.outcome = Outcome::env_failed;
    lost.reason = "session died";
    self->send(setup->gatekeeper, submit_atom_v, std::move(lost));
  });
  self->set_exit_handler([self](const caf::exit_msg& exit) { end(self, exit.reason); });
  return {[self, setup](start_atom) { ask_for_permit(self, setup); }};
}

}  // namespace millrace
