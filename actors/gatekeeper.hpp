#pragma once
// The actor around runtime/gatekeeper.hpp: whoever asks for a permit or for trajectories waits here until there are
// any.
#include <deque>
#include <optional>

#include "actors/permits.hpp"
#include "actors/protocol/interfaces.hpp"

namespace millrace {

struct GatekeeperState {
  struct Wanted {  // a learner's credit that has not been used yet
    caf::typed_response_promise<Taken> promise;
    int max = 0;
  };

  std::unique_ptr<Gatekeeper> gate;
  Permits permits;
  std::deque<Wanted> waiting_learners;

  // Checkpoints: one order at a time.
  using CheckpointPromise = caf::typed_response_promise<CheckpointReply>;
  struct Rollback {
    CheckpointPromise promise;
    CheckpointRow row;
  };
  caf::typed_response_promise<CheckpointOrder> checkpointer;
  bool checkpointer_waits = false;
  std::deque<CheckpointPromise> checkpoints_wanted;
  std::deque<Rollback> rollbacks_wanted;
  std::deque<caf::typed_response_promise<bool>> drains_wanted;
  std::vector<FinishedSession> arrived;  // since the last commit
  bool last_checkpoint_failed = false;
  int replicas = 1;                        // that learn together
  std::optional<CheckpointOrder> working;  // what the checkpointer is at

  void serve();  // answers all who can be answered now
  void give_order();
  void checkpointer_begins();
  void want_rollback(Version version, CheckpointPromise promise);
  void order_done(const CheckpointDone& done);
  void answer_drains();
  void submit(GatekeeperActor::stateful_pointer<GatekeeperState> self, FinishedSession& session);
  void commit();             // all that has arrived
  Gatekeeper& up_to_date();  // with all that was brought before the message at hand
  // Its permits come back.
  void asker_died(const caf::down_msg& down, const std::string& environment);
  CheckpointReply recover();
  GateStatus status() const;
  static const char* name;
};

// start: the policy's version as the service starts. steps: no step begins after so many published versions; 0 = no
// limit.
GatekeeperActor::behavior_type gatekeeper(GatekeeperActor::stateful_pointer<GatekeeperState> self,
                                          std::shared_ptr<Ledger> ledger, Version start, std::uint64_t steps,
                                          Settings settings, Metrics* metrics);

}  // namespace millrace
