#include "actors/generator.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <caf/send.hpp>

#include "actors/exceptions.hpp"
#include "actors/mailbox.hpp"
#include "runtime/clock.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

using Self = GeneratorActor::stateful_pointer<GeneratorState>;

void keep_stepping(Self self) {
  if (self->state.stepping || self->state.live() == 0) return;
  self->state.stepping = true;
  self->send(self, step_atom_v);
}

// The asker of a stream gets what is new.
void tell(TurnId id, GeneratorState::Asked& asked) {
  TurnTokens tokens{asked.choice, asked.decoder->sampled_since(id, asked.told)};
  const auto asker = caf::actor_cast<caf::actor>(asked.asker);
  if (tokens.sampled.tokens.empty() || !asker) return;
  asked.told += tokens.sampled.tokens.size();
  caf::anon_send(asker, tokens_atom_v, std::move(tokens));
}

void show_served(const GeneratorState& state, Activity& activity) {
  activity.served_turns = static_cast<int>(std::count_if(
      state.turns.begin(), state.turns.end(), [](const auto& turn) { return turn.second.served_since > 0; }));
}

// After a step with training in it applications' turns step alone, as long as there are any, for `priority` times as
// long as that one took.
std::vector<FinishedTurn> step_newest(GeneratorState& state, int priority) {
  const std::size_t urgent = state.decoder->urgent();
  const double begun = steady_now();
  if (urgent > 0 && begun < state.alone_until) return state.decoder->step(true);
  const bool training = state.decoder->live() > urgent;
  std::vector<FinishedTurn> finished = state.decoder->step();
  if (training) state.alone_until = steady_now() + priority * (steady_now() - begun);
  return finished;
}

void note_latency(const GeneratorState::Asked& asked, std::size_t tokens, Metrics& metrics) {
  const double now = steady_now();
  const double after_first = tokens > 1 ? (now - asked.first_at) / static_cast<double>(tokens - 1) : 0;
  metrics.served(asked.first_at - asked.served_since, after_first, now - asked.served_since);
}

void decode_step(Self self, int priority, Metrics& metrics, Activity& activity) {
  auto& state = self->state;
  const BusyTimer busy(activity.generator_busy_ns);
  const auto [prompt_before, generated_before] = state.tokens();
  std::vector<FinishedTurn> finished = step_newest(state, priority);
  for (Decoder* other : {state.good.get(), state.reference.get()}) {
    if (!other) continue;
    for (FinishedTurn& turn : other->step()) finished.push_back(std::move(turn));
  }
  for (auto& [id, asked] : state.turns) {
    if (asked.served_since > 0 && asked.first_at == 0 && !asked.decoder->sampled_since(id, 0).tokens.empty())
      asked.first_at = steady_now();
  }
  for (FinishedTurn& turn : finished) {
    const auto asked = state.turns.find(turn.id);
    if (asked->second.served_since > 0) {
      if (asked->second.first_at == 0) asked->second.first_at = steady_now();
      note_latency(asked->second, turn.tokens.size(), metrics);
    }
    asked->second.promise.deliver(TurnReply(std::move(turn)));
    state.turns.erase(asked);
  }
  for (auto& [id, asked] : state.turns) {
    if (asked.stream) tell(id, asked);
  }
  show_served(state, activity);
  const auto [prompt_after, generated_after] = state.tokens();
  const std::uint64_t prompt = prompt_after - prompt_before, generated = generated_after - generated_before;
  activity.prompt_tokens += prompt;
  activity.generated_tokens += generated;
  metrics.tokens_generated(prompt, generated);
}

void take_weights(Self self, const SnapshotPtr& weights, Metrics& metrics, Activity& activity) {
  if (version_of(*weights) == self->state.decoder->version()) return;
  self->state.newest = weights;
  const BusyTimer busy(activity.generator_busy_ns);
  const expected<void> taken = self->state.decoder->swap(weights);
  if (!taken) log_error("generator", "weights refused, the old ones stay: " + taken.error().message);
  metrics.publish(taken.has_value(), busy.seconds(), busy.seconds());
}

void show_good(const GeneratorState& state, Metrics& metrics, Activity& activity) {
  activity.good_version = state.good->version();
  metrics.good_policy(state.good->version());
}

void call_it_good(Self self, Metrics& metrics, Activity& activity) {
  auto& state = self->state;
  if (!state.good) return;
  if (const auto taken = state.good->swap(state.newest); !taken) return log_error("generator", taken.error().message);
  show_good(state, metrics, activity);
}

}  // namespace

const char* GeneratorState::name = "generator";

GeneratorActor::behavior_type generator(Self self, std::shared_ptr<const Model> model, SnapshotPtr reference,
                                        Settings settings, int threads, Metrics* metrics, Activity* activity) {
  die_of_exceptions(self, GeneratorState::name);
  use_threads(threads);
  activity->served_turns = 0;
  const DecoderSettings decoding{.max_context = settings.model.max_context,
                                 .parallel = settings.generation.parallel,
                                 .recompute_on_swap = settings.generation.kv_on_swap == "recompute",
                                 .batch_invariant = settings.pacing == "lockstep",
                                 .dtype = settings.generation.dtype,
                                 .device = settings.generation.device};
  self->state.decoder = std::make_unique<Decoder>(*model, decoding);
  self->state.newest = model->weights;
  if (settings.live.canary_share < 1) {
    self->state.good = std::make_unique<Decoder>(*model, decoding);
    show_good(self->state, *metrics, *activity);
  }
  self->set_down_handler([self, activity](const caf::down_msg& down) {
    auto& turns = self->state.turns;
    for (auto turn = turns.begin(); turn != turns.end();) {
      if (turn->second.asker != down.source) {
        ++turn;
        continue;
      }
      turn->second.decoder->cancel(turn->first);
      turn = turns.erase(turn);
    }
    show_served(self->state, *activity);
  });
  Model loaded = *model;
  loaded.weights = std::move(reference);
  const auto decoder_of = [self, loaded, decoding](Answerer by) -> Decoder& {
    auto& state = self->state;
    if (by == Answerer::reference) {
      if (!state.reference) state.reference = std::make_unique<Decoder>(loaded, decoding);
      return *state.reference;
    }
    return by == Answerer::good && state.good ? *state.good : *state.decoder;
  };
  return {
      [self, activity, decoder_of](generate_atom, const TurnRequest& request) {
        auto& state = self->state;
        const auto asker =
            caf::actor_cast<caf::actor_addr>(self->current_sender());  // the promise takes the sender with it
        auto promise = self->make_response_promise<TurnReply>();
        const TurnId id = state.next_turn++;
        Decoder& decoder = decoder_of(request.by);
        const expected<void> started = decoder.start(id, request.prompt, request.sampling, request.served_since > 0);
        if (!started) {
          promise.deliver(TurnReply(tl::unexpect, started.error()));
          return promise;
        }
        self->monitor(asker);
        state.turns.emplace(
            id, GeneratorState::Asked{promise, asker, &decoder, request.stream, request.choice, request.served_since});
        show_served(state, *activity);
        keep_stepping(self);
        return promise;
      },
      [=](weights_atom, const SnapshotPtr& weights) { take_weights(self, weights, *metrics, *activity); },
      [=](good_atom) { call_it_good(self, *metrics, *activity); },
      [=](step_atom) {
        self->state.stepping = false;
        report_mailbox(self, *metrics);
        decode_step(self, settings.live.priority, *metrics, *activity);
        keep_stepping(self);
      },
  };
}

}  // namespace millrace
