#include "actors/spawn.hpp"

#include <algorithm>
#include <thread>

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>

#include "actors/checkpointer.hpp"
#include "actors/evaluator.hpp"
#include "actors/gatekeeper.hpp"
#include "actors/gateway/gateway.hpp"
#include "actors/generator.hpp"
#include "actors/live.hpp"
#include "actors/observer.hpp"
#include "actors/policy_learner.hpp"
#include "actors/scorer.hpp"
#include "actors/session_host.hpp"
#include "actors/value_learner.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

// Reports the first of these that dies of anything but a shutdown. Sessions are watched by their host.
caf::behavior watchman(caf::event_based_actor* self, const std::vector<caf::actor>& watched,
                       const std::function<void(const std::string&)>& on_failure) {
  for (const caf::actor& actor : watched) self->monitor(actor);
  self->set_down_handler([on_failure](const caf::down_msg& down) {
    if (!down.reason || down.reason == caf::exit_reason::user_shutdown) return;
    on_failure("an actor died: " + caf::to_string(down.reason));
  });
  return {[](start_atom) {}};
}

// Three actors compute: while the critic goes through its second pass the policy steps and the generator writes on. An
// equal share each keeps every core busy; more threads than cores would only wait for each other at OpenMP's barriers.
int threads_each(const Settings& settings) {
  const int cores = settings.threads > 0 ? settings.threads : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / 2);
}

}  // namespace

Wiring spawn_service(caf::actor_system& system, const Parts& parts, std::function<void(const StepReport&)> on_step,
                     std::function<void(const std::string&)> on_failure) {
  const Settings& settings = parts.settings;
  const LearnerSetup learner{parts.model,   settings,       threads_each(settings),
                             parts.metrics, parts.activity, parts.pretrained};

  auto gatekeeper_actor = system.spawn(gatekeeper, parts.ledger, parts.version, parts.steps, settings, parts.metrics);
  auto scorer_actor = system.spawn(
      scorer, parts.preference, ScorerSetup{settings.reward.directory, parts.metrics, gatekeeper_actor, parts.events});
  auto generator_actor =
      system.spawn<caf::detached>(generator, parts.model, settings, learner.threads, parts.metrics, parts.activity);
  const SessionSetup sessions{gatekeeper_actor,       gatekeeper_actor,       generator_actor, scorer_actor,
                              parts.model->tokenizer, parts.make_environment, settings,        parts.metrics};
  auto evaluator_actor = system.spawn<caf::detached>(evaluator, parts.model, sessions, learner.threads);
  auto observer_actor =
      system.spawn(observer, ObserverSetup{settings.guard, settings.evaluation, evaluator_actor, gatekeeper_actor,
                                           parts.metrics, parts.activity, std::move(on_step)});
  auto policy_actor =
      system.spawn<caf::detached>(policy_learner, learner, gatekeeper_actor, generator_actor, observer_actor);
  auto value_actor =
      system.spawn<caf::detached>(value_learner, learner, gatekeeper_actor, policy_actor, observer_actor);
  auto checkpointer_actor = system.spawn<caf::detached>(
      checkpointer,
      std::make_shared<const CheckpointerSetup>(CheckpointerSetup{
          gatekeeper_actor, value_actor, policy_actor, scorer_actor, CheckpointStore(settings.state.directory),
          parts.model->name, parts.incarnation, parts.metrics}));
  auto host_actor = system.spawn(session_host, std::make_shared<const SessionSetup>(sessions));
  auto live_actor =
      system.spawn(live, parts.interactions, parts.model->tokenizer, gatekeeper_actor, settings.batch, parts.metrics);
  auto gateway_actor =
      system.spawn(gateway, std::make_shared<const GatewaySetup>(GatewaySetup{
                                gatekeeper_actor, generator_actor, scorer_actor, observer_actor, live_actor,
                                parts.model, settings, parts.metrics, parts.events, parts.request_drain}));

  Wiring wiring;
  wiring.gateway = gateway_actor;
  wiring.scorer = scorer_actor;
  wiring.gatekeeper = gatekeeper_actor;
  wiring.checkpointer = checkpointer_actor;
  wiring.value = value_actor;
  wiring.learns = parts.learn;
  wiring.live = live_actor;
  if (settings.environment.name != live_environment) wiring.host = host_actor;
  // From the source down, so that nothing new arrives where somebody has already left.
  const auto add = [&wiring](const auto& actor) { wiring.all.push_back(caf::actor_cast<caf::actor>(actor)); };
  add(gateway_actor);
  add(live_actor);
  add(host_actor);
  add(checkpointer_actor);
  add(evaluator_actor);
  add(value_actor);
  add(policy_actor);
  add(generator_actor);
  add(scorer_actor);
  add(gatekeeper_actor);
  add(observer_actor);
  wiring.all.push_back(system.spawn(watchman, wiring.all, std::move(on_failure)));

  return wiring;
}

void Wiring::start() {
  caf::anon_send(checkpointer, start_atom_v);
  if (!learns) return;
  caf::anon_send(value, start_atom_v);
  caf::anon_send(live, start_atom_v);
  if (host) caf::anon_send(host, start_atom_v);
}

void Wiring::stop() {
  for (const caf::actor& actor : all) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  *this = {};
}

}  // namespace millrace
