#pragma once
// A fixed address for an actor that may be replaced: whatever is sent to it goes to whoever stands behind it at that
// moment, with its sender, so that answers find their way. While nobody does, requests are answered with an error and
// everything else is dropped.
#include <mutex>

#include <caf/actor.hpp>
#include <caf/monitorable_actor.hpp>

namespace caf {
class actor_system;
}

namespace millrace {

class Relay : public caf::monitorable_actor {
 public:
  explicit Relay(caf::actor_config& config) : monitorable_actor(config) {}
  void point_to(caf::actor actor);  // from any thread; an empty handle: to nobody

  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override;
  const char* name() const override { return "relay"; }
  void on_destroy() override;

 private:
  std::mutex mutex_;
  caf::actor behind_;
};

// A relay as a handle to send to, and as what it is.
struct Relayed {
  caf::actor address;
  Relay* relay = nullptr;
};
Relayed make_relay(caf::actor_system& system);

}  // namespace millrace
