#include "actors/service.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/spawn.hpp"
#include "actors/timespan.hpp"
#include "actors/together.hpp"
#include "config/load.hpp"
#include "runtime/clock.hpp"
#include "runtime/log.hpp"
#include "runtime/resumption.hpp"
#include "runtime/state_directory.hpp"
#include "runtime/step_json.hpp"
#include "runtime/watchdog.hpp"

namespace millrace {

namespace {

// Why the service ends, said once.
class Verdict {
 public:
  void end(const std::string& failure) {  // empty: as it should
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    failure_ = failure;
    changed_.notify_all();
  }
  std::string wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
    return failure_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::string failure_;
};

// Where HTTP requests go: nowhere until the service has started, and again once it ends.
class FrontDoor {
 public:
  void open(GatewayActor gateway) {
    const std::lock_guard lock(mutex_);
    gateway_ = std::move(gateway);
  }
  void close() { open({}); }
  void enter(HttpRequest request, HttpReply reply) {
    GatewayActor gateway;
    {
      const std::lock_guard lock(mutex_);
      gateway = gateway_;
    }
    if (gateway) return caf::anon_send(gateway, http_atom_v, HttpExchange{std::move(request), std::move(reply)});
    if (request.path == "/livez") return reply({200, "ok\n", "text/plain", {}});
    reply(http_error(503, "the service is starting or stopping", "server_error"));
  }

 private:
  std::mutex mutex_;
  GatewayActor gateway_;
};

}  // namespace

struct Service::State {
  ServiceOptions options;
  Verdict verdict;
  Metrics metrics;
  Activity activity;
  EventHub events;
  nlohmann::json configured_spec;  // document of the spec that the config named last
  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
  std::optional<Asker> asker;  // its threads end before the actor system that they answer to
  std::shared_ptr<FrontDoor> door = std::make_shared<FrontDoor>();
  std::optional<HttpServer> http;
  Wiring wiring;
  std::optional<Watchdog> watchdog;
  std::uint64_t steps_done = 0;

  void on_step(const StepReport& report) {
    if (options.steps != 0 && steps_done >= options.steps)
      return;  // the last step is over, what follows is not asked for
    options.on_step(report);
    events.publish("step", nlohmann::json(to_json(report)));
    if (++steps_done == options.steps) verdict.end("");
  }
};

expected<Service> Service::start(ServiceOptions options) {
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  const Settings& settings = state->options.settings;

  // First what fails quickly.
  if (auto devices = check_devices(settings); !devices) return tl::unexpected(devices.error());
  expected<EnvironmentFactory> environments = make_environment_factory(settings.environment);
  if (!environments) return tl::unexpected(environments.error());
  expected<RewardSpec> spec = load_reward_spec(settings.reward.directory, settings.reward.spec);
  if (!spec) return tl::unexpected(spec.error());
  expected<HttpServer> http =
      HttpServer::listen(settings.http, [door = state->door](HttpRequest request, HttpReply reply) {
        door->enter(std::move(request), std::move(reply));
      });
  if (!http) return tl::unexpected(http.error());
  state->http.emplace(std::move(*http));
  expected<Model> model = load_model(settings.model, settings.seed);
  if (!model) return tl::unexpected(model.error());
  log_info("service", "loaded " + model->name);
  std::shared_ptr<const PretrainedValue> pretrained;
  if (!settings.value.path.empty()) {
    auto read = read_pretrained(settings.value.path);
    if (!read) return fail("value.path: " + read.error().message);
    pretrained = *read;
  }

  if (state->options.fresh) {
    expected<std::string> moved = move_aside(settings.state.directory);
    if (!moved) return tl::unexpected(moved.error());
    if (!moved->empty()) log_info("service", "the state of an earlier run is now in " + *moved);
  }
  expected<Ledger> ledger = Ledger::open(settings.state.directory);
  if (!ledger) return tl::unexpected(ledger.error());
  expected<Together> together = come_together(settings, *model);
  if (!together) return tl::unexpected(together.error());
  expected<Resumption> resumption = together->in_step([&](const Gather& gather) {
    return resume(*ledger, CheckpointStore(settings.state.directory), checksum_of(*model->weights),
                  settings.pacing == "lockstep", gather);
  });
  const auto unusable = [&](const std::string& why) {
    return fail(settings.state.directory + ": cannot go on from it: " + why +
                ": bring back what belongs to it, or start anew with --fresh or another state.directory");
  };
  if (!resumption) return unusable(resumption.error().message);
  if (auto own = ledger->become_replica(settings.replicas.rank, resumption->version); !own) {
    return unusable(own.error().message);
  }

  if (!resumption->checkpoint) model->weights = renumbered(*model->weights, resumption->version);
  expected<Interactions> interactions = Interactions::open(settings.state.directory, settings.live);
  if (!interactions) return tl::unexpected(interactions.error());
  expected<Redaction> redaction = Redaction::read(settings.live.redact_file);
  if (!redaction) return tl::unexpected(redaction.error());

  state->configured_spec = spec->document();
  const double now = unix_now();
  const auto configured = std::make_shared<const RewardSpec>(std::move(*spec));
  expected<Preference> preference = Preference::open(preference_file(settings), configured, now);
  if (!preference) return tl::unexpected(preference.error());

  state->system = std::make_unique<caf::actor_system>(configure(state->config));
  state->asker.emplace(settings.reward.parallel);
  Parts parts{std::make_shared<const Model>(std::move(*model)),
              std::move(*preference),
              configured,
              *environments,
              std::make_shared<Ledger>(std::move(*ledger)),
              resumption->incarnation,
              resumption->version,
              state->options.steps,
              [raw = state.get()] { raw->verdict.end(""); },
              std::make_shared<Interactions>(std::move(*interactions)),
              settings,
              &state->metrics,
              &state->activity,
              pretrained,
              &state->events,
              &*state->asker,
              std::make_shared<const Redaction>(std::move(*redaction)),
              state->options.learn,
              together->value,
              together->policy};
  State* raw = state.get();
  state->wiring = spawn_service(
      *state->system, parts, [raw](const StepReport& report) { raw->on_step(report); },
      [raw](const std::string& failure) { raw->verdict.end(failure); });
  if (resumption->checkpoint) {
    caf::scoped_actor self(*state->system);
    std::string error;
    self->request(state->wiring.checkpointer, caf::infinite, restore_atom_v, resumption->checkpoint,
                  resumption->version)
        .receive([&](const std::string& answer) { error = answer; },
                 [&](const caf::error& gone) { error = caf::to_string(gone); });
    if (!error.empty()) {
      state->wiring.stop();
      return unusable(error);
    }
    log_info("service", "goes on from checkpoint " + resumption->checkpoint->row.name);
    resumption->checkpoint.reset();
  }
  state->wiring.start();
  state->door->open(state->wiring.gateway);
  state->watchdog.emplace(state->activity, settings.supervision.hang_s, [](const std::string& what) {
    log_error("watchdog", what + " hangs (supervision.hang_s): the process ends");
    _exit(1);
  });
  log_info("service", std::string("listening on http") + (settings.http.certificate_file.empty() ? "" : "s") + "://" +
                          settings.http.address + ":" + std::to_string(state->http->port()));
  return Service(std::move(state));
}

Service::Service(std::unique_ptr<State> state) : state_(std::move(state)) {}
Service::Service(Service&&) noexcept = default;
Service& Service::operator=(Service&&) noexcept = default;

Service::~Service() {
  if (!state_) return;
  state_->watchdog.reset();
  state_->door->close();
  state_->events.end();
  state_->wiring.stop();
  state_->system->await_all_actors_done();
}

bool Service::drain() {
  bool in_time = false;
  caf::scoped_actor self(*state_->system);
  const auto grace = timespan_of(state_->options.settings.drain.grace_s);
  self->request(state_->wiring.gatekeeper, grace, drain_atom_v)
      .receive(
          [&in_time](bool saved) {
            in_time = true;
            log_info("service", saved ? "drained: everything learned is in the last checkpoint"
                                      : "drained without a last checkpoint");
          },
          [](const caf::error&) {
            log_warning("service", "not drained within drain.grace_s: the next start goes on from the last checkpoint");
          });
  return in_time;
}

int Service::port() const { return state_->http->port(); }

void Service::reload(const Settings& changed) {
  const auto before = nlohmann::json(to_json(state_->options.settings)).flatten();
  const auto after = nlohmann::json(to_json(changed)).flatten();
  std::string fixed;
  for (const auto& [key, value] : after.items()) {
    if (key != "/reward/spec" && (!before.contains(key) || before[key] != value)) fixed += " " + key.substr(1);
  }
  if (!fixed.empty()) log_warning("service", "only a restart changes:" + fixed);

  const auto spec = load_reward_spec(changed.reward.directory, changed.reward.spec);
  if (!spec) return log_error("service", "not reloaded: " + spec.error().message);
  if (spec->document() == state_->configured_spec) return log_info("service", "reloaded: the reward spec is the same");
  SpecChange change;
  change.spec = spec->document();
  change.who = "config";
  change.why = "reloaded";
  caf::scoped_actor self(*state_->system);
  self->request(state_->wiring.scorer, std::chrono::seconds(10), spec_atom_v, change)
      .receive(
          [&](const SpecReply& reply) {
            if (!reply.error.empty()) return log_error("service", "not reloaded: " + reply.error);
            log_info("service", "reloaded: rewarded is " + reply.info.name);
            state_->configured_spec = spec->document();
          },
          [](const caf::error& error) { log_error("service", "not reloaded: " + caf::to_string(error)); });
}

void Service::request_stop() { state_->verdict.end(""); }

expected<void> Service::wait() {
  const std::string failure = state_->verdict.wait();
  if (failure.empty()) return {};
  return fail(failure);
}

}  // namespace millrace
