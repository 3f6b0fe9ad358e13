#include "actors/supervisor.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <caf/exit_reason.hpp>

#include "actors/exceptions.hpp"
#include "actors/timespan.hpp"
#include "runtime/clock.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

using Self = SupervisorSelf;
using Setup = std::shared_ptr<const SupervisorSetup>;

void stand(Self self, const Setup& setup, std::size_t index, const std::vector<caf::actor>& actors) {
  auto& supervised = self->state.roles[index];
  supervised.actors = actors;
  supervised.alive = actors.size();
  for (std::size_t i = 0; i < actors.size(); ++i) {
    setup->roles[index].places[i].relay->point_to(actors[i]);
    self->monitor(actors[i]);
  }
}

void begin(Self self, const Setup& setup, std::size_t index) {
  auto& supervised = self->state.roles[index];
  if (std::exchange(supervised.missing, false)) --setup->activity->roles_missing;
  setup->roles[index].begin(supervised.actors);
}

// Both learners go on from the newest checkpoint, or from the start where there is none yet.
void start_learners(Self self, const Setup& setup) {
  const std::size_t index = setup->roles.size() - 1;
  const auto give_up = [setup](const std::string& why) { setup->on_failure("the learners cannot go on: " + why); };
  const auto gone = [give_up](const caf::error& error) { give_up(caf::to_string(error)); };
  self->request(setup->gatekeeper, caf::infinite, recover_atom_v)
      .then(
          [=](const CheckpointReply& from) {
            stand(self, setup, index, setup->roles[index].spawn(from.policy_version));
            if (from.row.name.empty()) return begin(self, setup, index);
            const expected<StoredCheckpointPtr> stored = setup->store.read(from.row);
            if (!stored) return give_up(stored.error().message);
            const auto value = caf::actor_cast<ValueLearnerActor>(self->state.roles[index].actors[0]);
            const auto policy = caf::actor_cast<PolicyLearnerActor>(self->state.roles[index].actors[1]);
            self->request(value, caf::infinite, restore_atom_v, *stored)
                .then(
                    [=, checkpoint = *stored](const std::string& value_error) {
                      if (!value_error.empty()) return give_up(value_error);
                      self->request(policy, caf::infinite, restore_atom_v, checkpoint, from.policy_version)
                          .then(
                              [=](const std::string& policy_error) {
                                if (!policy_error.empty()) return give_up(policy_error);
                                begin(self, setup, index);
                              },
                              // Dead again: its down message starts both anew.
                              [](const caf::error&) {});
                    },
                    [](const caf::error&) {});
          },
          gone);
}

void start_again(Self self, const Setup& setup, std::size_t index) {
  const bool learners = index + 1 == setup->roles.size();
  if (learners && setup->settings.replicas.count > 1) {
    return setup->on_failure("a learner died, and replicas go on together: all have to be started again");
  }
  if (learners) return start_learners(self, setup);
  stand(self, setup, index, setup->roles[index].spawn(0));
  begin(self, setup, index);
}

void on_death(Self self, const Setup& setup, std::size_t index, std::size_t place, const caf::error& reason) {
  const Role& role = setup->roles[index];
  auto& supervised = self->state.roles[index];
  role.places[place].relay->point_to({});
  if (supervised.alive-- == supervised.actors.size()) {
    log_warning("supervisor", role.names[place] + " died: " + caf::to_string(reason));
    setup->metrics->actor_restart(role.names[place].c_str());
    if (!std::exchange(supervised.missing, true)) ++setup->activity->roles_missing;
    const std::optional<double> delay = supervised.budget.died(steady_now());
    if (!delay) return setup->on_failure(role.names[place] + " dies too often (supervision.restarts_per_minute)");
    supervised.delay = *delay;
    for (const caf::actor& other : supervised.actors) self->send_exit(other, caf::exit_reason::kill);
  }
  if (supervised.alive > 0) return;
  self->delayed_send(self, timespan_of(supervised.delay), restart_atom_v, index);
}

void end(Self self, const Setup& setup) {
  for (std::size_t i = 0; i < setup->roles.size(); ++i) {
    for (const caf::actor& actor : self->state.roles[i].actors) {
      self->send_exit(actor, caf::exit_reason::user_shutdown);
    }
    for (const Relayed& place : setup->roles[i].places) place.relay->point_to({});
  }
  self->send_exit(setup->gatekeeper, caf::exit_reason::user_shutdown);
  self->quit();
}

}  // namespace

const char* SupervisorState::name = "supervisor";

caf::behavior supervisor(Self self, Setup setup, const std::vector<std::vector<caf::actor>>& standing) {
  die_of_exceptions(self, SupervisorState::name);
  for (std::size_t i = 0; i < setup->roles.size(); ++i) {
    self->state.roles.push_back(
        {{},
         0,
         RestartBudget(setup->settings.supervision.restarts_per_minute, setup->settings.supervision.backoff_s),
         0});
    stand(self, setup, i, standing[i]);
  }
  self->monitor(setup->gatekeeper);
  self->set_down_handler([=](const caf::down_msg& down) {
    for (std::size_t i = 0; i < setup->roles.size(); ++i) {
      const auto& actors = self->state.roles[i].actors;
      for (std::size_t place = 0; place < actors.size(); ++place) {
        if (actors[place].address() == down.source) return on_death(self, setup, i, place, down.reason);
      }
    }
    if (setup->gatekeeper.address() == down.source) {
      setup->on_failure("the gatekeeper died: " + caf::to_string(down.reason));
    }
  });
  self->set_exit_handler([=](const caf::exit_msg&) { end(self, setup); });
  return {
      [=](start_atom) {
        for (std::size_t i = 0; i < setup->roles.size(); ++i) begin(self, setup, i);
        self->send(self, beat_atom_v);
      },
      [=](beat_atom) {
        setup->activity->beat_ns = std::chrono::steady_clock::now().time_since_epoch().count();
        self->delayed_send(self, std::chrono::seconds(1), beat_atom_v);
      },
      [=](restart_atom, std::size_t index) { start_again(self, setup, index); },
  };
}

}  // namespace millrace
