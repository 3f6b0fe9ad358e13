#pragma once
// The wiring diagram of the service: which actors there are, on which threads, and who knows whom.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/fwd.hpp>

#include "actors/protocol/interfaces.hpp"
#include "models/collective.hpp"
#include "runtime/activity.hpp"
#include "runtime/environment.hpp"
#include "runtime/event_hub.hpp"
#include "runtime/live/interactions.hpp"
#include "runtime/live/redaction.hpp"
#include "runtime/preference.hpp"
#include "runtime/pretrained_value.hpp"
#include "runtime/reward.hpp"
#include "runtime/rewards/asker.hpp"

namespace millrace {

// How the service's actors share threads.
caf::actor_system_config& configure(caf::actor_system_config& config);

// What the actors are made of.
struct Parts {
  std::shared_ptr<const Model> model;
  Preference preference;
  SpecPtr configured;  // the spec that the config names
  EnvironmentFactory make_environment;
  std::shared_ptr<Ledger> ledger;
  std::uint64_t incarnation = 1;
  Version version = 0;      // the policy's as the service starts
  std::uint64_t steps = 0;  // no step begins after so many published versions; 0 = no limit
  std::function<void()> request_drain;
  std::shared_ptr<Interactions> interactions;
  Settings settings;
  Metrics* metrics = nullptr;
  Activity* activity = nullptr;
  std::shared_ptr<const PretrainedValue> pretrained;
  EventHub* events = nullptr;
  Asker* asker = nullptr;
  std::shared_ptr<const Redaction> redaction = nullptr;
  bool learn = true;  // false: no session begins
  std::shared_ptr<Collective> value_replicas = nullptr, policy_replicas = nullptr;
};

// Where the history of the reward spec lies.
inline std::string preference_file(const Settings& settings) {
  return settings.state.directory + "/reward_specs.jsonl";
}

struct Wiring {
  GatewayActor gateway;
  ScorerActor scorer;
  GatekeeperActor gatekeeper;
  CheckpointerActor checkpointer;
  caf::actor supervisor;
  std::map<std::string, caf::actor> places;  // by name: whoever stands there gets what is sent to it

  void start();  // training begins
  void stop();   // asks all actors to end and forgets them
};

// Nothing trains before start(): a checkpoint may be restored first.
// `on_failure` is called when an actor that the service cannot do without has died.
Wiring spawn_service(caf::actor_system& system, const Parts& parts, std::function<void(const StepReport&)> on_step,
                     std::function<void(const std::string&)> on_failure);

}  // namespace millrace
