#pragma once
// The actor around models/decoder.hpp. Between two decode steps it reads its mailbox: new turns join, new weights are
// taken, and turns whose asker has died are dropped.
#include <map>
#include <memory>

#include "actors/protocol/interfaces.hpp"
#include "runtime/activity.hpp"

namespace millrace {

inline constexpr const char* generator_died = "the generator died";

struct GeneratorState {
  struct Asked {
    caf::typed_response_promise<TurnReply> promise;
    caf::actor_addr asker;
    Decoder* decoder = nullptr;  // the newest policy's, or the good one's
    bool stream = false;
    std::size_t choice = 0;
    double served_since = 0;  // as in the request; 0: a training turn
    double first_at = 0;      // when its first token was there, on the same clock; 0: not yet
    std::size_t told = 0;     // tokens the asker of a stream has been sent
  };

  std::unique_ptr<Decoder> decoder;    // of the newest policy
  std::unique_ptr<Decoder> good;       // of the last good one, where the newest is a canary
  std::unique_ptr<Decoder> reference;  // of the one that was loaded, once it has been asked for
  SnapshotPtr newest;
  std::map<TurnId, Asked> turns;
  TurnId next_turn = 1;
  bool stepping = false;   // a step message is on its way
  double alone_until = 0;  // steady clock: applications' turns step alone, if there are any

  // Fed and sampled so far.
  std::pair<std::uint64_t, std::uint64_t> tokens() const {
    return {sum([](const Decoder& one) { return one.prompt_tokens(); }),
            sum([](const Decoder& one) { return one.generated_tokens(); })};
  }
  std::size_t live() const {
    return sum([](const Decoder& one) { return one.live(); });
  }
  std::uint64_t sum(auto count) const {  // over the decoders there are
    return count(*decoder) + (good ? count(*good) : 0) + (reference ? count(*reference) : 0);
  }

  ~GeneratorState() {  // nobody waits for an answer of a generator that has died
    for (auto& [id, asked] : turns) asked.promise.deliver(TurnReply(tl::unexpect, Error{generator_died}));
  }
  static const char* name;
};

// `model` with the newest weights; `reference`: those that were loaded.
GeneratorActor::behavior_type generator(GeneratorActor::stateful_pointer<GeneratorState> self,
                                        std::shared_ptr<const Model> model, SnapshotPtr reference, Settings settings,
                                        int threads, Metrics* metrics, Activity* activity);

}  // namespace millrace
