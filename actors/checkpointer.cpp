#include "actors/checkpointer.hpp"

#include <chrono>
#include <cstdio>
#include <functional>
#include <stdexcept>

#include "actors/exceptions.hpp"
#include "runtime/clock.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

using Self = CheckpointerActor::stateful_pointer<CheckpointerState>;
using Setup = std::shared_ptr<const CheckpointerSetup>;

// A version and a step together never return.
std::string name_for(const CheckpointRow& row) {
  char name[64];
  std::snprintf(name, sizeof name, "v%06llu-s%06llu", static_cast<unsigned long long>(row.policy_version),
                static_cast<unsigned long long>(row.step));
  return name;
}

void next_order(Self self, const Setup& setup);

// Whom we ask is gone: the service ends, or this actor is started anew with its peers.
auto give_up(Self self) {
  return [self](const caf::error& gone) { self->quit(gone); };
}

void finish(Self self, const Setup& setup, CheckpointOrder order, const std::string& error) {
  self->request(setup->gatekeeper, caf::infinite, done_atom_v, CheckpointDone{std::move(order), error})
      .then(
          [self, setup](const std::vector<std::string>& kept) {
            if (auto removed = setup->store.keep_only(kept); !removed) {
              log_warning("checkpointer", removed.error().message);
            }
            next_order(self, setup);
          },
          give_up(self));
}

void write(Self self, const Setup& setup, CheckpointOrder order, const SpecInfo& spec) {
  auto& state = self->state;
  if (state.value.number != order.row.step || state.policy.number != order.row.policy_version) {
    throw std::logic_error("the learners are not at the batch of the checkpoint");
  }
  self->send(setup->gatekeeper, held_atom_v);
  const auto started = std::chrono::steady_clock::now();
  order.row.name = name_for(order.row);
  order.row.created = unix_now();
  const nlohmann::json facts = {
      {"policy_version", order.row.policy_version},
      {"step", order.row.step},
      {"warmup_left", state.value.warmup_left},
      {"incarnation", setup->incarnation},
      {"created", order.row.created},
      {"model", setup->model},
      {"threads", setup->threads},
      {"machine", machine_type()},
      {"reward_spec", {{"version", spec.version}, {"name", spec.name}, {"document", spec.document}}},
  };
  const auto sum =
      setup->store.write(order.row.name, facts, state.policy.image->tensors(), state.value.image->tensors());
  state.value = state.policy = {};
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  setup->metrics->checkpoint(sum.has_value(), seconds);
  if (sum) order.row.checksum = *sum;
  finish(self, setup, std::move(order), sum ? "" : sum.error().message);
}

void save(Self self, const Setup& setup, const CheckpointOrder& order) {
  self->request(setup->value, caf::infinite, save_atom_v)
      .then(
          [=](const LearnerPart& value) {
            self->state.value = value;
            self->request(setup->policy, caf::infinite, save_atom_v)
                .then(
                    [=](const LearnerPart& policy) {
                      self->state.policy = policy;
                      self->request(setup->scorer, caf::infinite, spec_atom_v)
                          .then([=](const SpecInfo& spec) { write(self, setup, order, spec); }, give_up(self));
                    },
                    give_up(self));
          },
          give_up(self));
}

// First the critic: when it answers, all that it had sent to the policy before is in the policy's mailbox.
using Then = std::function<void(const std::string& error)>;
void restore(Self self, const Setup& setup, const StoredCheckpointPtr& checkpoint, Version version, const Then& then) {
  self->request(setup->value, caf::infinite, restore_atom_v, checkpoint)
      .then(
          [=](const std::string& value_error) {
            if (!value_error.empty()) return then("value.safetensors: " + value_error);
            self->request(setup->policy, caf::infinite, restore_atom_v, checkpoint, version)
                .then(
                    [=](const std::string& policy_error) {
                      then(policy_error.empty() ? policy_error : "policy.safetensors: " + policy_error);
                    },
                    give_up(self));
          },
          give_up(self));
}

void next_order(Self self, const Setup& setup) {
  self->request(setup->gatekeeper, caf::infinite, order_atom_v)
      .then(
          [=](const CheckpointOrder& order) {
            if (!order.restore) return save(self, setup, order);
            const expected<StoredCheckpointPtr> stored = setup->store.read(order.row);
            if (!stored) return finish(self, setup, order, stored.error().message);
            restore(self, setup, *stored, order.resumed_as, [=](const std::string& error) {
              // Half a rollback is none that the service could go on with.
              if (!error.empty()) throw std::runtime_error("rollback: " + error);
              finish(self, setup, order, "");
            });
          },
          give_up(self));
}

}  // namespace

const char* CheckpointerState::name = "checkpointer";

CheckpointerActor::behavior_type checkpointer(Self self, Setup setup) {
  die_of_exceptions(self, CheckpointerState::name);
  return {
      [=](start_atom) { next_order(self, setup); },
      [=](restore_atom, const StoredCheckpointPtr& checkpoint, Version version) {
        auto promise = self->make_response_promise<std::string>();
        restore(self, setup, checkpoint, version,
                [promise](const std::string& error) mutable { promise.deliver(error); });
        return promise;
      },
  };
}

}  // namespace millrace
