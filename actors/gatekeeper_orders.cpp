// The gatekeeper's part in what learners and checkpointer do together: checkpoints, rollbacks, recovery, the last step
// of a drain.
#include "actors/gatekeeper.hpp"
#include "runtime/clock.hpp"
#include "runtime/log.hpp"

namespace millrace {

// Whatever the learners have not brought to a checkpoint is queued again.
CheckpointReply GatekeeperState::recover() {
  waiting_learners.clear();
  gate->hold(false);
  const auto checkpoints = gate->ledger().checkpoints();
  CheckpointReply reply;
  if (!checkpoints.empty()) reply.row = checkpoints.front();
  // The dead policy may have published one version that nobody here has heard of.
  reply.policy_version = gate->learner_version() + 2;
  if (auto forked = gate->rolled_back(reply.row, reply.policy_version); !forked) {
    throw std::runtime_error("recovery: " + forked.error().message);
  }
  return reply;
}

// A rollback goes before a checkpoint. Neither begins in the middle of a step, when the learners are at different
// batches.
void GatekeeperState::give_order() {
  if (!checkpointer_waits || gate->step_in_progress()) return;
  CheckpointOrder order;
  if (!rollbacks_wanted.empty()) {
    order.restore = true;
    order.row = rollbacks_wanted.front().row;
    order.resumed_as = gate->learner_version() + 1;
  } else if (gate->checkpoint_due(steady_now()) || !checkpoints_wanted.empty() || !drains_wanted.empty()) {
    if (!drains_wanted.empty() && (!gate->drained() || gate->checkpointed_step() == gate->step_number())) return;
    order.row = gate->next_checkpoint();
  } else {
    return;
  }
  gate->hold(true);
  order.fork = gate->forks();
  working = order;
  checkpointer_waits = false;
  checkpointer.deliver(std::move(order));
}

// One that asks while an order is still out stands for one that has died.
void GatekeeperState::checkpointer_begins() {
  if (!working) return;
  // It may have brought back one learner and not the other.
  if (working->restore) throw std::runtime_error("rollback: the checkpointer died in the middle of it");
  order_done({*working, "the checkpointer died"});
}

void GatekeeperState::order_done(const CheckpointDone& done) {
  gate->hold(false);
  working.reset();
  std::string error = done.error;
  if (error.empty() && done.order.fork != gate->forks()) error = "the learners have gone back meanwhile";
  const CheckpointRow& row = done.order.row;
  const auto answer = [&](CheckpointPromise& promise) {
    promise.deliver(CheckpointReply{row, gate->learner_version(), error, CheckpointFault::failed});
  };
  if (done.order.restore) {
    if (error.empty()) {
      // The learners are back already: a ledger that does not know of it would be wrong for ever.
      if (auto forked = gate->rolled_back(row, done.order.resumed_as); !forked) {
        throw std::runtime_error("rollback: " + forked.error().message);
      }
      log_warning("gatekeeper", "rolled back to version " + std::to_string(row.policy_version) + ", which goes on as " +
                                    std::to_string(done.order.resumed_as));
    }
    answer(rollbacks_wanted.front().promise);
    rollbacks_wanted.pop_front();
    return;
  }
  if (error.empty()) {
    if (auto named = gate->checkpointed(row); !named) error = named.error().message;
  }
  last_checkpoint_failed = !error.empty();
  if (last_checkpoint_failed) {
    log_error("gatekeeper", "no checkpoint of step " + std::to_string(row.step) + ": " + error);
    gate->checkpoint_failed(error, steady_now());
  }
  for (CheckpointPromise& promise : checkpoints_wanted) answer(promise);
  checkpoints_wanted.clear();
}

void GatekeeperState::want_rollback(Version version, CheckpointPromise promise) {
  const auto refuse = [&](const std::string& why, CheckpointFault fault) {
    promise.deliver(CheckpointReply{{}, gate->learner_version(), why, fault});
  };
  if (replicas > 1) {
    return refuse("one of " + std::to_string(replicas) + " replicas cannot go back without the others (replicas.count)",
                  CheckpointFault::refused);
  }
  std::string known;
  for (const CheckpointRow& row : gate->ledger().checkpoints()) {
    if (row.policy_version == version) return rollbacks_wanted.push_back({std::move(promise), row});
    known += (known.empty() ? "" : ", ") + std::to_string(row.policy_version);
  }
  refuse("there is no checkpoint of version " + std::to_string(version) + ": there are " +
             (known.empty() ? "none" : known),
         CheckpointFault::unknown_version);
}

void GatekeeperState::answer_drains() {
  const bool saved = gate->checkpointed_step() == gate->step_number();
  if (drains_wanted.empty() || !gate->drained() || !(saved || last_checkpoint_failed)) return;
  bool in_order = saved;
  if (auto ended = gate->end_in_order(); !ended) {
    log_error("gatekeeper", ended.error().message);
    in_order = false;
  }
  for (auto& promise : drains_wanted) promise.deliver(in_order);
  drains_wanted.clear();
}

}  // namespace millrace
