#include "actors/spawn.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>

#include "actors/checkpointer.hpp"
#include "actors/evaluator.hpp"
#include "actors/gatekeeper.hpp"
#include "actors/gateway/gateway.hpp"
#include "actors/generator.hpp"
#include "actors/lanes.hpp"
#include "actors/live.hpp"
#include "actors/observer.hpp"
#include "actors/policy_learner.hpp"
#include "actors/relay.hpp"
#include "actors/scorer.hpp"
#include "actors/session_host.hpp"
#include "actors/supervisor.hpp"
#include "actors/value_learner.hpp"
#include "runtime/clock.hpp"

namespace millrace {

namespace {

// A relay with the interface of whoever stands behind it.
template <class Actor>
struct Place : Relayed {
  explicit Place(caf::actor_system& system) : Relayed(make_relay(system)), actor(caf::actor_cast<Actor>(address)) {}
  Actor actor;
};

using Actors = std::vector<caf::actor>;

template <class... Typed>
Actors actors_of(const Typed&... typed) {
  return {caf::actor_cast<caf::actor>(typed)...};
}

void begin_nothing(const Actors&) {}
void begin_first(const Actors& actors) { caf::anon_send(actors.front(), start_atom_v); }

// Three actors compute: while the critic goes through its second pass the policy steps and the generator writes on. An
// equal share each keeps every core busy; more threads than cores would only wait for each other at OpenMP's barriers.
// Where nothing is generated while the policy learns, and there is no critic, each has all of them in turn.
int threads_each(const Settings& settings) {
  const int cores = settings.threads > 0 ? settings.threads : static_cast<int>(std::thread::hardware_concurrency());
  const bool take_turns = settings.pacing == "sync" && settings.recipe.baseline.kind != "value";
  return take_turns ? cores : std::max(1, cores / 2);
}

// A learner that waits for other replicas does not hang.
void wait_idly(Collective* replicas, const char* learner, BusyTime& busy, Metrics& metrics) {
  if (!replicas) return;
  replicas->on_wait([learner, &busy, &metrics, since = steady_now()](bool waiting) mutable {
    const double now = steady_now();
    if (!waiting) metrics.replica_wait(learner, now - since);
    since = now;
    busy.since_ns = waiting ? 0 : std::chrono::steady_clock::now().time_since_epoch().count();
  });
}

}  // namespace

caf::actor_system_config& configure(caf::actor_system_config& config) {
  // Event-based actors do little work, and none of it for long; compute actors have threads of their own.
  config.set("scheduler.max-threads", Lanes::count);
  config.set("scheduler.max-throughput", std::size_t{100});
  return config.load<caf::scheduler::coordinator<Lanes>>();
}

Wiring spawn_service(caf::actor_system& system, const Parts& parts, std::function<void(const StepReport&)> on_step,
                     std::function<void(const std::string&)> on_failure) {
  const Settings& settings = parts.settings;
  const auto latest = std::make_shared<LatestWeights>(parts.model->weights);

  // Everybody knows the others by their places; who stands there may be replaced. The gatekeeper owns the ledger and
  // stays.
  const Place<ObserverActor> observer_at(system);
  const Place<EvaluatorActor> evaluator_at(system);
  const Place<ScorerActor> scorer_at(system);
  const Place<GeneratorActor> generator_at(system);
  const Place<PolicyLearnerActor> policy_at(system);
  const Place<ValueLearnerActor> value_at(system);
  const Place<CheckpointerActor> checkpointer_at(system);
  const Place<SessionHostActor> host_at(system);
  const Place<LiveActor> live_at(system);
  const Place<GatewayActor> gateway_at(system);
  const GatekeeperActor gatekeeper_actor =
      system.spawn(gatekeeper, parts.ledger, parts.version, parts.steps, settings, parts.metrics);
  put_in_second_lane(system, Asked::gatekeeper, gatekeeper_actor);

  const LearnerSetup learner{parts.model,          latest,         settings,         threads_each(settings),
                             parts.metrics,        parts.activity, parts.pretrained, parts.value_replicas,
                             parts.policy_replicas};
  wait_idly(parts.value_replicas.get(), "value", parts.activity->value_busy_ns, *parts.metrics);
  wait_idly(parts.policy_replicas.get(), "policy", parts.activity->policy_busy_ns, *parts.metrics);
  const auto checkpoints = std::make_shared<const CheckpointerSetup>(CheckpointerSetup{
      gatekeeper_actor, value_at.actor, policy_at.actor, scorer_at.actor, CheckpointStore(settings.state.directory),
      parts.model->name, parts.incarnation, threads_each(settings), parts.metrics});
  const auto sessions = std::make_shared<const SessionSetup>(
      SessionSetup{gatekeeper_actor, generator_at.actor, scorer_at.actor, parts.model->tokenizer,
                   parts.make_environment, settings, parts.metrics});
  const auto routes = std::make_shared<const GatewaySetup>(GatewaySetup{
      gatekeeper_actor, generator_at.actor, scorer_at.actor, observer_at.actor, live_at.actor, parts.model, settings,
      parts.metrics, parts.events, parts.request_drain, parts.activity, parts.asker, parts.redaction});

  const auto spawn_observer = [&system, parts, on_step, evaluator = evaluator_at.actor, live = live_at.actor,
                               policy = policy_at.actor, gatekeeper_actor](Version) {
    return actors_of(
        system.spawn(observer, ObserverSetup{parts.settings.guard, parts.settings.evaluation, evaluator,
                                             gatekeeper_actor, policy, live, parts.metrics, parts.activity, on_step}));
  };
  const auto spawn_evaluator = [&system, parts, sessions, learner](Version) {
    return actors_of(system.spawn<caf::detached>(evaluator, parts.model, *sessions, learner.threads));
  };
  const auto spawn_live = [&system, parts, gatekeeper_actor, generator = generator_at.actor](Version) {
    return actors_of(system.spawn<caf::detached>(  // it waits for the disk
        live, std::make_shared<const LiveSetup>(LiveSetup{parts.interactions, parts.model->tokenizer, gatekeeper_actor,
                                                          generator, parts.settings, parts.metrics, parts.activity})));
  };
  // One that is started again finds what was in force in its file.
  const auto spawn_scorer = [&system, parts, gatekeeper_actor, first = std::make_shared<bool>(true)](Version) {
    Preference preference = parts.preference;
    if (!std::exchange(*first, false)) {
      const double now = unix_now();
      auto opened = Preference::open(preference_file(parts.settings), parts.configured, now);
      if (opened) preference = std::move(*opened);
    }
    const ScorerActor scores = system.spawn(
        scorer, std::move(preference),
        ScorerSetup{parts.settings.reward.directory, parts.metrics, gatekeeper_actor, parts.events, parts.asker});
    put_in_second_lane(system, Asked::scorer, scores);
    return actors_of(scores);
  };
  const auto spawn_generator = [&system, parts, learner, latest](Version) {
    auto model = std::make_shared<Model>(*parts.model);
    model->weights = latest->get();
    return actors_of(system.spawn<caf::detached>(generator, std::shared_ptr<const Model>(model), parts.model->weights,
                                                 parts.settings, learner.threads, parts.metrics, parts.activity));
  };
  // What was published while it was on its way to its place would have been lost.
  const auto begin_generator = [latest](const Actors& actors) {
    caf::anon_send(actors.front(), weights_atom_v, latest->get());
  };
  // Learners begin with the weights that were loaded, under a number of their own.
  const auto spawn_learners = [&system, learner, latest, gatekeeper_actor, generator = generator_at.actor,
                               policy = policy_at.actor, observer = observer_at.actor](Version version) {
    auto model = std::make_shared<Model>(*learner.model);
    LearnerSetup own = learner;
    if (version != version_of(*model->weights)) {
      model->weights = renumbered(*model->weights, version);
      own.model = model;
      latest->put(model->weights);
      caf::anon_send(generator, weights_atom_v, model->weights);
      caf::anon_send(observer, start_atom_v);
    }
    return actors_of(system.spawn<caf::detached>(value_learner, own, gatekeeper_actor, policy, observer),
                     system.spawn<caf::detached>(policy_learner, own, gatekeeper_actor, generator, observer));
  };
  const auto spawn_checkpointer = [&system, checkpoints](Version) {
    return actors_of(system.spawn<caf::detached>(checkpointer, checkpoints));
  };
  const auto spawn_host = [&system, sessions](Version) { return actors_of(system.spawn(session_host, sessions)); };
  const auto spawn_gateway = [&system, routes](Version) { return actors_of(system.spawn(gateway, routes)); };

  const auto begin_learning = parts.learn ? begin_first : begin_nothing;
  // No sessions where only applications' traffic is trained.
  const auto begin_sessions = settings.environment.name == live_environment ? begin_nothing : begin_learning;

  // From the source down, so that at the end nothing new arrives where somebody has already left.
  const auto setup = std::make_shared<const SupervisorSetup>(
      SupervisorSetup{{{{"gateway"}, {gateway_at}, spawn_gateway, begin_nothing},
                       {{"live"}, {live_at}, spawn_live, begin_learning},
                       {{"session_host"}, {host_at}, spawn_host, begin_sessions},
                       {{"checkpointer"}, {checkpointer_at}, spawn_checkpointer, begin_first},
                       {{"generator"}, {generator_at}, spawn_generator, begin_generator},
                       {{"scorer"}, {scorer_at}, spawn_scorer, begin_nothing},
                       {{"evaluator"}, {evaluator_at}, spawn_evaluator, begin_nothing},
                       {{"observer"}, {observer_at}, spawn_observer, begin_nothing},
                       {{"value_learner", "policy_learner"}, {value_at, policy_at}, spawn_learners, begin_learning}},
                      gatekeeper_actor,
                      CheckpointStore(settings.state.directory),
                      settings,
                      parts.metrics,
                      parts.activity,
                      std::move(on_failure)});
  Wiring wiring;
  std::vector<Actors> standing;
  for (const Role& role : setup->roles) {
    standing.push_back(role.spawn(version_of(*parts.model->weights)));
    for (std::size_t i = 0; i < role.places.size(); ++i) {
      role.places[i].relay->point_to(standing.back()[i]);
      wiring.places.emplace(role.names[i], role.places[i].address);
    }
  }
  wiring.gateway = gateway_at.actor;
  wiring.scorer = scorer_at.actor;
  wiring.gatekeeper = gatekeeper_actor;
  wiring.checkpointer = checkpointer_at.actor;
  wiring.supervisor = system.spawn(supervisor, setup, standing);
  return wiring;
}

void Wiring::start() { caf::anon_send(supervisor, start_atom_v); }

void Wiring::stop() {
  caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
  *this = {};
}

}  // namespace millrace
