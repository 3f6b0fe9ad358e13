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
    bool stream = false;
    std::size_t choice = 0;
    std::size_t told = 0;  // tokens the asker of a stream has been sent
  };

  std::unique_ptr<Decoder> decoder;
  std::map<TurnId, Asked> turns;
  TurnId next_turn = 1;
  bool stepping = false;  // a step message is on its way

  ~GeneratorState() {  // nobody waits for an answer of a generator that has died
    for (auto& [id, asked] : turns) asked.promise.deliver(TurnReply(tl::unexpect, Error{generator_died}));
  }
  static const char* name;
};

GeneratorActor::behavior_type generator(GeneratorActor::stateful_pointer<GeneratorState> self,
                                        std::shared_ptr<const Model> model, Settings settings, int threads,
                                        Metrics* metrics, Activity* activity);

}  // namespace millrace
