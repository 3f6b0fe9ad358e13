#pragma once
// Continuous batching: live turns get one token a step; they join and leave between steps. Each token is stamped
// with the log-prob under the very distribution it was drawn from (float32, at the turn's temperature) and the version
// of the weights that made it.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/expected.hpp"
#include "models/model.hpp"

namespace millrace {

using TurnId = std::uint64_t;

struct Sampling {
  double temperature = 1.0;  // 0 = greedy
  double top_p = 1.0;        // 1 = off
  int top_k = 0;             // <= 0 = off
  int max_tokens = 24;       // >= 1; cut to what the context leaves
  std::uint64_t seed = 0;    // same seed, same prompt, same weights: same tokens, whatever else is in the batch
  std::vector<std::string> stop = {};  // texts that end the turn; their tokens are kept
  int top_logprobs = 0;                // most likely tokens to report beside each sampled one
};

// A token's most likely alternatives, best first, with log-probs at the turn's temperature over the whole vocabulary.
using TopTokens = std::vector<std::pair<TokenId, float>>;

enum class Finish { stop, length };  // stop: end-of-turn token or a stop text

struct FinishedTurn {
  TurnId id = 0;
  Tokens tokens;                    // the end-of-turn token included when it was sampled; nothing is ever added
  std::vector<float> logp;          // [tokens]
  std::vector<Version> versions;    // [tokens]
  std::vector<TopTokens> top = {};  // [tokens], empty where none were asked for
  Finish finish = Finish::length;
  Version last_weights = 0;  // weights in use when the turn ended
};

// A part of a turn that is still going on.
struct SampledTokens {
  Tokens tokens;
  std::vector<float> logp;
  std::vector<Version> versions;
  std::vector<TopTokens> top = {};
};

struct DecoderSettings {
  int max_context = 2048;  // tokens of prompt and answer
  int parallel = 256;      // turns that get a token in a step, >= 1; others wait, urgent ones in front
  bool recompute_on_swap = false;
  // Every turn goes through the model by itself, so that its tokens and log-probs are the same bits whatever else is in
  // the batch. Slow: the weights are read once a turn.
  bool batch_invariant = false;
  std::string dtype = "float32";  // of the arithmetic: auto | float32 | bfloat16 | int8; log-probs are float32 always
  std::string device = "cpu";     // cpu | cuda:0 ...; drawing is done on the CPU always
};

class Decoder {
 public:
  Decoder(const Model& model, DecoderSettings settings);
  ~Decoder();

  // Errors: empty prompt; "prompt_too_long: ..." where no room for one token is left; bad sampling values; id in use.
  // `urgent`: a turn that steps may be taken for alone.
  expected<void> start(TurnId id, const Tokens& prompt, const Sampling& sampling, bool urgent = false);
  void cancel(TurnId id);  // unknown ids are ignored
  // Feeds new prompts, then samples one token for every live turn, or for every urgent one, `parallel` of them at most:
  // the others stand still.
  // Returns the turns that ended with it.
  std::vector<FinishedTurn> step(bool urgent_only = false);
  // Takes new weights, all or nothing; where they are prepared (model.hpp) at no cost. Errors: another architecture, a
  // name, a shape or a value (NaN) that does not fit; the old ones stay.
  expected<void> swap(SnapshotPtr weights);

  // What a live turn has sampled after its first `from` tokens; nothing for an unknown id.
  SampledTokens sampled_since(TurnId id, std::size_t from) const;

  std::size_t live() const;
  std::size_t urgent() const;  // of the live turns
  Version version() const;
  std::uint64_t prompt_tokens() const;     // fed so far
  std::uint64_t generated_tokens() const;  // sampled so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
