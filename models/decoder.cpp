#include "models/decoder.hpp"

#include <ATen/ATen.h>

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "models/kv_cache.hpp"
#include "models/layers.hpp"
#include "models/sampler.hpp"
#include "models/text/detokenizer.hpp"
#include "models/transformer.hpp"

namespace millrace {

namespace {

// One live turn. Its place in the list is its slot in the cache.
struct Turn {
  FinishedTurn result;
  Tokens tokens;  // prompt and what has been sampled
  Sampling sampling;
  Detokenizer text;
  std::string tail;         // the end of the text, as far as a stop text may reach back
  std::int64_t cached = 0;  // tokens whose keys and values are in the cache
};

expected<void> check(const Sampling& sampling) {
  if (!(sampling.temperature >= 0 && sampling.temperature <= 100)) return fail("temperature must be from 0 to 100");
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) return fail("top_p must be above 0 and at most 1");
  if (sampling.max_tokens < 1) return fail("max_tokens must be at least 1");
  return {};
}

}  // namespace

struct Decoder::State {
  State(const Model& model, DecoderSettings decoder_settings)
      : settings(decoder_settings),
        tokenizer(model.tokenizer),
        snapshot(model.weights),
        cache(snapshot->architecture, snapshot->weights.embedding.scalar_type()) {}

  const Architecture& architecture() const { return snapshot->architecture; }

  // Puts keys and values of a turn's tokens into its slot, all but the last one: that goes through with the others'.
  void prefill(std::int64_t slot) {
    Turn& turn = turns[static_cast<std::size_t>(slot)];
    const auto known = static_cast<std::int64_t>(turn.tokens.size());
    cache.reserve(static_cast<std::int64_t>(turns.size()), known);
    const std::int64_t rows = known - 1;
    turn.cached = rows;
    if (rows == 0) return;
    const at::Tensor tokens =
        at::tensor(at::ArrayRef<TokenId>(turn.tokens).slice(0, static_cast<std::size_t>(rows)), at::kInt);
    at::Tensor hidden = at::embedding(snapshot->weights.embedding, tokens);
    const Rotary rotary = rotary_of(architecture(), at::arange(rows, at::kLong), hidden.scalar_type());
    const std::int64_t group = architecture().heads / architecture().kv_heads;
    for (std::size_t i = 0; i < snapshot->weights.layers.size(); ++i) {
      const Layer& layer = snapshot->weights.layers[i];
      const AttentionInput in = attention_input(architecture(), layer, hidden, rotary);
      const at::Tensor k = in.k.transpose(0, 1), v = in.v.transpose(0, 1);  // [kv_heads, rows, head_dim]
      cache[i].k.select(0, slot).narrow(1, 0, rows).copy_(k);
      cache[i].v.select(0, slot).narrow(1, 0, rows).copy_(v);
      if (i + 1 == snapshot->weights.layers.size()) break;  // nobody reads what comes out of the last layer
      const auto wide = [&](const at::Tensor& x) { return x.repeat_interleave(group, 0).unsqueeze(0); };
      const at::Tensor attended = at::scaled_dot_product_attention(in.q.transpose(0, 1).unsqueeze(0), wide(k), wide(v),
                                                                   {}, 0.0, /*is_causal=*/true);
      hidden = layer_output(architecture(), layer, hidden, attended.squeeze(0).transpose(0, 1).reshape({rows, -1}));
    }
    fed += static_cast<std::uint64_t>(rows);
  }

  // Logits [turns, vocab] for the token after each turn's last one, whose keys and values join the cache.
  at::Tensor forward() {
    const auto count = static_cast<std::int64_t>(turns.size());
    std::int64_t longest = 0;
    at::Tensor tokens = at::empty({count}, at::kLong), positions = at::empty({count}, at::kLong);
    for (std::int64_t i = 0; i < count; ++i) {
      const Turn& turn = turns[static_cast<std::size_t>(i)];
      tokens.data_ptr<std::int64_t>()[i] = turn.tokens.back();
      positions.data_ptr<std::int64_t>()[i] = turn.cached;
      longest = std::max(longest, turn.cached + 1);
    }
    cache.reserve(count, longest);
    at::Tensor hidden = at::embedding(snapshot->weights.embedding, tokens);
    const at::ScalarType dtype = hidden.scalar_type();
    const Rotary rotary = rotary_of(architecture(), positions, dtype);
    const at::Tensor hides = at::arange(longest, at::kLong).unsqueeze(0) > positions.unsqueeze(1);
    const at::Tensor mask = at::zeros({count, longest}, dtype)
                                .masked_fill_(hides, -std::numeric_limits<float>::infinity())
                                .view({count, 1, 1, longest});
    const at::Tensor slots = at::arange(count, at::kLong);
    const std::int64_t kv = architecture().kv_heads, size = architecture().head_dim;
    const std::int64_t group = architecture().heads / kv;
    for (std::size_t i = 0; i < snapshot->weights.layers.size(); ++i) {
      const Layer& layer = snapshot->weights.layers[i];
      const AttentionInput in = attention_input(architecture(), layer, hidden, rotary);
      // [slots, capacity, kv_heads, head_dim] views, so that one entry a turn is written at once.
      cache[i].k.transpose(1, 2).index_put_({slots, positions}, in.k);
      cache[i].v.transpose(1, 2).index_put_({slots, positions}, in.v);
      const at::Tensor k = cache[i].k.narrow(0, 0, count).narrow(2, 0, longest);
      const at::Tensor v = cache[i].v.narrow(0, 0, count).narrow(2, 0, longest);
      // Query heads that share a key-value head stand as rows of it: keys and values are not copied.
      const at::Tensor attended =
          at::scaled_dot_product_attention(in.q.view({count, kv, group, size}), k, v, mask).reshape({count, -1});
      hidden = layer_output(architecture(), layer, hidden, attended);
    }
    for (Turn& turn : turns) ++turn.cached;
    return logits_of(snapshot->weights, rms_norm(hidden, snapshot->weights.final_norm, architecture().norm_eps));
  }

  // Appends a token; whether the turn has ended with it.
  bool append(Turn& turn, const Drawn& drawn) {
    FinishedTurn& result = turn.result;
    turn.tokens.push_back(drawn.token);
    result.tokens.push_back(drawn.token);
    result.logp.push_back(drawn.logp);
    result.versions.push_back(snapshot->version);
    result.last_weights = snapshot->version;
    result.finish = Finish::stop;
    if (drawn.token == tokenizer->eos()) return true;
    if (meets_stop_text(turn, drawn.token)) return true;
    result.finish = Finish::length;
    return static_cast<int>(result.tokens.size()) >= turn.sampling.max_tokens ||
           static_cast<int>(turn.tokens.size()) >= settings.max_context;
  }

  static bool meets_stop_text(Turn& turn, TokenId token) {
    if (turn.sampling.stop.empty()) return false;
    std::size_t longest = 0;
    turn.tail += turn.text.push(token);
    for (const std::string& stop : turn.sampling.stop) {
      if (turn.tail.find(stop) != std::string::npos) return true;
      longest = std::max(longest, stop.size());
    }
    if (turn.tail.size() > longest) turn.tail.erase(0, turn.tail.size() - longest);
    return false;
  }

  // The last turn takes the place of the one that leaves.
  void remove(std::size_t slot) {
    const std::size_t last = turns.size() - 1;
    if (slot != last) {
      cache.move(static_cast<std::int64_t>(last), static_cast<std::int64_t>(slot), turns[last].cached);
      turns[slot] = std::move(turns[last]);
    }
    turns.pop_back();
  }

  const DecoderSettings settings;
  const std::shared_ptr<const Tokenizer> tokenizer;
  SnapshotPtr snapshot;
  KvCache cache;
  std::vector<Turn> turns;
  std::vector<Turn> waiting;  // prompts not yet fed
  std::uint64_t fed = 0;
  std::uint64_t sampled = 0;
};

Decoder::Decoder(const Model& model, DecoderSettings settings) : state_(std::make_unique<State>(model, settings)) {}
Decoder::~Decoder() = default;

expected<void> Decoder::start(TurnId id, const Tokens& prompt, const Sampling& sampling) {
  State& s = *state_;
  if (auto good = check(sampling); !good) return good;
  if (prompt.empty()) return fail("the prompt is empty");
  if (static_cast<int>(prompt.size()) >= s.settings.max_context) {
    return fail("prompt_too_long: " + std::to_string(prompt.size()) + " tokens leave no room in a context of " +
                std::to_string(s.settings.max_context));
  }
  for (const TokenId token : prompt) {
    if (token < 0 || token >= s.architecture().vocab)
      return fail("token " + std::to_string(token) + " is not in the vocabulary");
  }
  const auto same = [id](const Turn& turn) { return turn.result.id == id; };
  if (std::any_of(s.turns.begin(), s.turns.end(), same) || std::any_of(s.waiting.begin(), s.waiting.end(), same)) {
    return fail("turn " + std::to_string(id) + " is already live");
  }
  Turn turn{{}, prompt, sampling, Detokenizer(*s.tokenizer), {}, 0};
  turn.result.id = id;
  s.waiting.push_back(std::move(turn));
  return {};
}

void Decoder::cancel(TurnId id) {
  State& s = *state_;
  const auto same = [id](const Turn& turn) { return turn.result.id == id; };
  std::erase_if(s.waiting, same);
  const auto found = std::find_if(s.turns.begin(), s.turns.end(), same);
  if (found != s.turns.end()) s.remove(static_cast<std::size_t>(found - s.turns.begin()));
}

std::vector<FinishedTurn> Decoder::step() {
  State& s = *state_;
  const at::NoGradGuard no_gradient;
  for (Turn& turn : s.waiting) {
    s.turns.push_back(std::move(turn));
    s.prefill(static_cast<std::int64_t>(s.turns.size()) - 1);
    ++s.fed;  // its last token goes through with the others'
  }
  s.waiting.clear();
  std::vector<FinishedTurn> finished;
  if (s.turns.empty()) return finished;
  const at::Tensor logits = s.forward();
  for (std::size_t i = s.turns.size(); i-- > 0;) {  // backwards: a turn that leaves moves only one that is done
    Turn& turn = s.turns[i];
    const Drawn drawn = draw(logits[static_cast<std::int64_t>(i)], turn.sampling, turn.result.tokens.size());
    ++s.sampled;
    if (!s.append(turn, drawn)) continue;
    finished.push_back(std::move(turn.result));
    s.remove(i);
  }
  return finished;
}

expected<void> Decoder::swap(SnapshotPtr weights) {
  State& s = *state_;
  const at::NoGradGuard no_gradient;
  if (auto good = check_weights(s.architecture(), weights->weights); !good) return good;
  s.snapshot = std::move(weights);
  if (s.settings.recompute_on_swap) {
    for (std::size_t i = 0; i < s.turns.size(); ++i) s.prefill(static_cast<std::int64_t>(i));
  }
  return {};
}

std::size_t Decoder::live() const { return state_->turns.size() + state_->waiting.size(); }
Version Decoder::version() const { return state_->snapshot->version; }
std::uint64_t Decoder::prompt_tokens() const { return state_->fed; }
std::uint64_t Decoder::generated_tokens() const { return state_->sampled; }

}  // namespace millrace
