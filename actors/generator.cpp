#include "actors/generator.hpp"

#include <chrono>

#include <caf/send.hpp>

#include "actors/exceptions.hpp"
#include "actors/mailbox.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

using Self = GeneratorActor::stateful_pointer<GeneratorState>;

void keep_stepping(Self self) {
  if (self->state.stepping || self->state.decoder->live() == 0) return;
  self->state.stepping = true;
  self->send(self, step_atom_v);
}

// The asker of a stream gets what is new.
void tell(Self self, TurnId id, GeneratorState::Asked& asked) {
  TurnTokens tokens{asked.choice, self->state.decoder->sampled_since(id, asked.told)};
  const auto asker = caf::actor_cast<caf::actor>(asked.asker);
  if (tokens.sampled.tokens.empty() || !asker) return;
  asked.told += tokens.sampled.tokens.size();
  caf::anon_send(asker, tokens_atom_v, std::move(tokens));
}

void decode_step(Self self, Metrics& metrics, Activity& activity) {
  auto& state = self->state;
  const BusyTimer busy(activity.generator_busy_ns);
  const std::uint64_t prompt_before = state.decoder->prompt_tokens();
  const std::uint64_t generated_before = state.decoder->generated_tokens();
  for (FinishedTurn& turn : state.decoder->step()) {
    const auto asked = state.turns.find(turn.id);
    asked->second.promise.deliver(TurnReply(std::move(turn)));
    state.turns.erase(asked);
  }
  for (auto& [id, asked] : state.turns) {
    if (asked.stream) tell(self, id, asked);
  }
  const std::uint64_t prompt = state.decoder->prompt_tokens() - prompt_before;
  const std::uint64_t generated = state.decoder->generated_tokens() - generated_before;
  activity.prompt_tokens += prompt;
  activity.generated_tokens += generated;
  metrics.tokens_generated(prompt, generated);
}

void take_weights(Self self, const SnapshotPtr& weights, Metrics& metrics, Activity& activity) {
  if (version_of(*weights) == self->state.decoder->version()) return;
  const BusyTimer busy(activity.generator_busy_ns);
  const expected<void> taken = self->state.decoder->swap(weights);
  if (!taken) log_error("generator", "weights refused, the old ones stay: " + taken.error().message);
  metrics.publish(taken.has_value(), busy.seconds(), busy.seconds());
}

}  // namespace

const char* GeneratorState::name = "generator";

GeneratorActor::behavior_type generator(Self self, std::shared_ptr<const Model> model, Settings settings, int threads,
                                        Metrics* metrics, Activity* activity) {
  die_of_exceptions(self, GeneratorState::name);
  use_threads(threads);
  self->state.decoder = std::make_unique<Decoder>(
      *model, DecoderSettings{settings.model.max_context, settings.generation.kv_on_swap == "recompute",
                              settings.pacing == "lockstep", settings.generation.dtype});
  self->set_down_handler([self](const caf::down_msg& down) {
    auto& turns = self->state.turns;
    for (auto turn = turns.begin(); turn != turns.end();) {
      if (turn->second.asker != down.source) {
        ++turn;
        continue;
      }
      self->state.decoder->cancel(turn->first);
      turn = turns.erase(turn);
    }
  });
  return {
      [self](generate_atom, const TurnRequest& request) {
        auto& state = self->state;
        const auto asker =
            caf::actor_cast<caf::actor_addr>(self->current_sender());  // the promise takes the sender with it
        auto promise = self->make_response_promise<TurnReply>();
        const TurnId id = state.next_turn++;
        if (const expected<void> started = state.decoder->start(id, request.prompt, request.sampling); !started) {
          promise.deliver(TurnReply(tl::unexpect, started.error()));
          return promise;
        }
        self->monitor(asker);
        state.turns.emplace(id, GeneratorState::Asked{promise, asker, request.stream, request.choice});
        keep_stepping(self);
        return promise;
      },
      [=](weights_atom, const SnapshotPtr& weights) { take_weights(self, weights, *metrics, *activity); },
      [=](step_atom) {
        self->state.stepping = false;
        report_mailbox(self, *metrics);
        decode_step(self, *metrics, *activity);
        keep_stepping(self);
      },
  };
}

}  // namespace millrace
