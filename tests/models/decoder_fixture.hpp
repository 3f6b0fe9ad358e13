#pragma once
// Runs turns through a decoder and compares what it reports with what a learner computes for the same tokens.
#include <map>

#include "tests/models/learner_fixture.hpp"
#include "tests/models/reference.hpp"

#include "models/decoder.hpp"

namespace millrace::testing {

using Turns = std::map<TurnId, FinishedTurn>;

inline Turns run(Decoder& decoder, int steps = 100'000) {
  Turns turns;
  for (; decoder.live() > 0 && steps > 0; --steps) {
    for (FinishedTurn& turn : decoder.step()) turns.emplace(turn.id, std::move(turn));
  }
  return turns;
}

// The turn that a prompt gives when nothing else is in the batch.
inline FinishedTurn alone(const Model& model, const Tokens& prompt, const Sampling& sampling, int max_context = 2048) {
  Decoder decoder(model, {.max_context = max_context});
  REQUIRE(decoder.start(1, prompt, sampling));
  return run(decoder).at(1);
}

inline Tokens joined(Tokens prompt, const Tokens& answer) {
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  return prompt;
}

// The largest distance between what the decoder reports and what a learner computes for the same tokens.
inline double distance_to_learner(const Model& model, const Tokens& prompt, const FinishedTurn& turn,
                                  double temperature) {
  return distance(turn.logp, learner_logp(*model.weights, joined(prompt, turn.tokens), prompt.size(), temperature));
}

}  // namespace millrace::testing
