#include "actors/relay.hpp"

#include <utility>

#include <caf/actor_config.hpp>
#include <caf/actor_system.hpp>
#include <caf/exit_reason.hpp>
#include <caf/make_actor.hpp>
#include <caf/sec.hpp>

namespace millrace {

void Relay::point_to(caf::actor actor) {
  const std::lock_guard lock(mutex_);
  behind_ = std::move(actor);
}

void Relay::enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) {
  caf::actor behind;
  {
    const std::lock_guard lock(mutex_);
    behind = behind_;
  }
  if (behind) {
    caf::actor_cast<caf::abstract_actor*>(behind)->enqueue(std::move(what), host);
  } else {
    bounce(what, caf::make_error(caf::sec::request_receiver_down));
  }
}

void Relay::on_destroy() {
  if (!getf(is_cleaned_up_flag)) {
    cleanup(caf::exit_reason::unreachable, nullptr);
    monitorable_actor::on_destroy();
  }
}

Relayed make_relay(caf::actor_system& system) {
  caf::actor_config config;
  Relayed relayed;
  relayed.address = caf::make_actor<Relay, caf::actor>(system.next_actor_id(), system.node(), &system, config);
  relayed.relay = static_cast<Relay*>(caf::actor_cast<caf::abstract_actor*>(relayed.address));
  return relayed;
}

}  // namespace millrace
