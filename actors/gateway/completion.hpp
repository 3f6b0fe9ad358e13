#pragma once
// The actor of one request to the OpenAI API: it asks the generator for every choice, and lives until the answer is
// complete or its caller has hung up; then the generator drops what it still samples for it.
#include <memory>

#include "actors/gateway/gateway.hpp"
#include "runtime/openai/completion.hpp"

namespace millrace {

// Whom it asks, and for whom.
struct CompletionSetup {
  GeneratorActor generator;
  LiveActor live;
  caf::actor_addr gateway;  // it does not outlive it
  std::string session_key;  // of /rl/start_session; empty outside sessions
  std::string client;
  bool remember = true;  // false: its client wants it kept out of training
  Answerer by = Answerer::newest;
  std::shared_ptr<const Redaction> redaction;
  HttpExchange exchange;
};

struct CompletionState {
  ~CompletionState() {
    if (stream) stream->end();  // also when it dies: the reader must not wait for ever
  }
  std::shared_ptr<Completion> completion;
  std::shared_ptr<HttpStream> stream;  // set once the head of a streamed answer is out
  std::string session;
  double created = 0;  // Unix seconds
  double asked = 0;    // the same moment on the steady clock
  static const char* name;
};

using CompletionSelf = CompletionActor::stateful_pointer<CompletionState>;

CompletionActor::behavior_type completion(CompletionSelf self, std::shared_ptr<Completion> work,
                                          std::shared_ptr<const CompletionSetup> setup);

}  // namespace millrace
