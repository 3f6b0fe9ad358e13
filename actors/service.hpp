#pragma once
// The whole service in one object: what main() starts, waits for and stops. No CAF and no Torch in sight.
#include <functional>
#include <memory>

#include "config/expected.hpp"
#include "config/settings.hpp"
#include "runtime/metrics.hpp"

namespace millrace {

struct ServiceOptions {
  Settings settings;
  std::uint64_t steps = 0;  // ends after so many published versions; 0 = runs until stopped
  bool learn = true;        // false: only answers, no session begins
  bool fresh = false;       // moves earlier state aside instead of going on from it
  std::function<void(const StepReport&)> on_step = [](const StepReport&) {};  // called from an actor's thread
};

class Service {
 public:
  // Loads, opens, listens and starts everything, or nothing. Errors: what could not be had, in one line.
  static expected<Service> start(ServiceOptions options);
  Service(Service&&) noexcept;
  Service& operator=(Service&&) noexcept;
  ~Service();

  int port() const;
  void request_stop();  // from any thread
  // Applies what of other settings can change while it runs (reward.spec), and names in the log what cannot.
  void reload(const Settings& changed);
  expected<void> wait();  // until the steps are done, a stop was requested, or something broke beyond repair
  // Ends in order: no new sessions, running ones finish, the last step, a checkpoint. False: it was not done within
  // drain.grace_s, and some actor may be in the middle of something long; the next start goes on from the last
  // checkpoint.
  bool drain();

 private:
  struct State;
  explicit Service(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace
