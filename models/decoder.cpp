#include "models/decoder.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "models/cached_transformer.hpp"
#include "models/compute.hpp"
#include "models/sampler.hpp"
#include "models/text/detokenizer.hpp"

namespace millrace {

namespace {

constexpr std::int64_t chunk = 512;        // prompt tokens a step: what the others wait for between two of their tokens
constexpr std::int64_t worth_a_pass = 16;  // tokens saved that pay for reading all the weights once more

struct Turn {
  FinishedTurn result;
  Tokens tokens;  // prompt and what has been sampled
  Sampling sampling;
  Detokenizer text;
  KvCache cache;
  std::string tail = {};            // the end of the text, as far as a stop text may reach back
  std::int64_t prompt = 0;          // tokens of the prompt
  std::int64_t prompt_counted = 0;  // ... that have once been fed
  std::int64_t cached = 0;          // leading tokens whose keys and values are in the cache
  std::int64_t current = 0;         // ... and were made by the current weights

  // Tokens that must be in the cache before the last one goes through.
  std::int64_t missing() const { return static_cast<std::int64_t>(tokens.size()) - 1 - cached; }

  // The next `count` tokens.
  Feed feed(std::int64_t count) {
    const std::span<const TokenId> all(tokens);
    return {&cache, cached, all.subspan(static_cast<std::size_t>(cached), static_cast<std::size_t>(count))};
  }

  void fed(std::int64_t count) {
    if (current == cached) current += count;
    cached += count;
  }

  // Whether the text has met a stop text with this token.
  bool stops(TokenId token) {
    if (sampling.stop.empty()) return false;
    tail += text.push(token);
    std::size_t longest = 0;
    for (const std::string& stop : sampling.stop) {
      if (tail.find(stop) != std::string::npos) return true;
      longest = std::max(longest, stop.size());
    }
    if (tail.size() > longest) tail.erase(0, tail.size() - longest);
    return false;
  }
};

std::int64_t common_prefix(const Tokens& a, const Tokens& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

expected<void> check(const Sampling& sampling) {
  const double temperature = sampling.temperature;
  if (temperature != 0 && !(temperature >= 0.01 && temperature <= 100)) {
    return fail("temperature: must be 0 (greedy) or from 0.01 to 100");
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) return fail("top_p: must be above 0 and at most 1");
  if (sampling.max_tokens < 1) return fail("max_tokens: must be at least 1");
  for (const std::string& stop : sampling.stop) {
    if (stop.empty()) return fail("stop: a text must not be empty");
  }
  return {};
}

}  // namespace

struct Decoder::State {
  State(const Model& model, DecoderSettings decoder_settings)
      : settings(decoder_settings),
        tokenizer(model.tokenizer),
        transformer(model.weights, compute_of(settings.dtype, settings.device)) {}

  // Takes over from another turn what it has in common with this one, if the current weights made it.
  void borrow(Turn& turn) {
    const Turn* lender = nullptr;
    std::int64_t best = turn.cached;
    for (const Turn& other : turns) {
      if (&other == &turn || other.current <= best) continue;  // cheaper than to compare tokens
      const std::int64_t shared =
          std::min({common_prefix(turn.tokens, other.tokens), other.current, turn.cached + turn.missing()});
      if (shared <= best) continue;
      best = shared;
      lender = &other;
    }
    if (!lender) return;
    turn.cache.begin_like(lender->cache, best);
    turn.cached = turn.current = best;
  }

  // Tokens that are about to be fed.
  struct Part {
    Turn* turn = nullptr;
    std::int64_t count = 0;
  };

  // Whether so much of this turn is just being computed for another that it had better be taken over afterwards.
  static bool should_wait(const Turn& turn, std::span<const Part> parts) {
    return std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
      const std::int64_t ready = part.turn->cached + part.count;
      return std::min(common_prefix(turn.tokens, part.turn->tokens), ready) - turn.cached >= worth_a_pass;
    });
  }

  void feed(std::span<const Part> parts) {
    std::vector<Feed> feeds;
    for (const Part& part : parts) feeds.push_back(part.turn->feed(part.count));
    transformer.feed(feeds);
    for (const Part& part : parts) part.turn->fed(part.count);
  }

  // Batch-invariant: nothing is borrowed, and where a prompt is cut depends on itself only.
  void feed_each_alone(std::span<Turn> stepping) {
    for (Turn& turn : stepping) {
      const Part part{&turn, std::min(turn.missing(), chunk)};
      if (part.count > 0) feed({&part, 1});
    }
  }

  // Brings up to `chunk` tokens of these turns into their caches: prompts, or whole turns after a swap that recomputes.
  void feed_prompts(std::span<Turn> stepping) {
    if (settings.batch_invariant) return feed_each_alone(stepping);
    std::int64_t room = chunk;
    while (room > 0) {
      std::vector<Part> parts;
      for (Turn& turn : stepping) {
        if (turn.missing() > 0 && turn.current == turn.cached) borrow(turn);
        const std::int64_t count = std::min(turn.missing(), room);
        if (count == 0 || should_wait(turn, parts)) continue;
        parts.push_back({&turn, count});
        room -= count;
      }
      if (parts.empty()) return;
      feed(parts);
    }
  }

  // One token of each of these turns goes through: its last one, or the next of a prompt that is not in yet.
  at::Tensor next_logits(std::span<Turn> stepping) {
    std::vector<Feed> feeds;
    for (Turn& turn : stepping) {
      feeds.push_back(turn.feed(1));
      turn.fed(1);
      const std::int64_t seen = std::min(turn.cached, turn.prompt);
      prompt_fed += static_cast<std::uint64_t>(std::max<std::int64_t>(seen - turn.prompt_counted, 0));
      turn.prompt_counted = std::max(seen, turn.prompt_counted);
    }
    if (!settings.batch_invariant) return transformer.next_logits(feeds);
    std::vector<at::Tensor> rows;
    for (const Feed& feed : feeds) rows.push_back(transformer.next_logits({&feed, 1}));
    return at::cat(rows);
  }

  // Appends a token; whether the turn has ended with it.
  bool append(Turn& turn, const Drawn& drawn) {
    FinishedTurn& result = turn.result;
    turn.tokens.push_back(drawn.token);
    result.tokens.push_back(drawn.token);
    result.logp.push_back(drawn.logp);
    if (turn.sampling.top_logprobs > 0) result.top.push_back(drawn.top);
    result.versions.push_back(transformer.snapshot().version);
    result.last_weights = transformer.snapshot().version;
    ++sampled;
    result.finish = Finish::stop;
    if (tokenizer->ends_turn(drawn.token) || turn.stops(drawn.token)) return true;
    result.finish = Finish::length;
    return static_cast<int>(result.tokens.size()) >= turn.sampling.max_tokens ||
           static_cast<int>(turn.tokens.size()) >= settings.max_context;
  }

  std::vector<Turn>::iterator find(TurnId id) {
    return std::find_if(turns.begin(), turns.end(), [id](const Turn& turn) { return turn.result.id == id; });
  }

  // Of the first `count` turns as many as may step at once.
  std::span<Turn> in_front(std::size_t count) {
    return std::span(turns).first(std::min(count, static_cast<std::size_t>(settings.parallel)));
  }

  void remove(std::vector<Turn>::iterator turn) {
    if (turn - turns.begin() < static_cast<std::ptrdiff_t>(urgent)) --urgent;
    turns.erase(turn);
  }

  const DecoderSettings settings;
  const std::shared_ptr<const Tokenizer> tokenizer;
  CachedTransformer transformer;
  std::vector<Turn> turns;  // urgent ones first, both kinds in the order in which they came
  std::size_t urgent = 0;   // of the turns
  std::uint64_t prompt_fed = 0;
  std::uint64_t sampled = 0;
};

Decoder::Decoder(const Model& model, DecoderSettings settings) : state_(std::make_unique<State>(model, settings)) {}
Decoder::~Decoder() = default;

expected<void> Decoder::start(TurnId id, const Tokens& prompt, const Sampling& sampling, bool urgent) {
  State& s = *state_;
  if (auto good = check(sampling); !good) return good;
  if (prompt.empty()) return fail("the prompt is empty");
  if (static_cast<int>(prompt.size()) >= s.settings.max_context) {
    return fail("prompt_too_long: " + std::to_string(prompt.size()) + " tokens leave no room in a context of " +
                std::to_string(s.settings.max_context));
  }
  for (const TokenId token : prompt) {
    if (token < 0 || token >= s.transformer.snapshot().architecture.vocab) {
      return fail("token " + std::to_string(token) + " is not in the vocabulary");
    }
  }
  if (s.find(id) != s.turns.end()) return fail("turn " + std::to_string(id) + " is already live");
  Turn turn{.result = {},
            .tokens = prompt,
            .sampling = sampling,
            .text = Detokenizer(*s.tokenizer),
            .cache = s.transformer.empty_cache()};
  turn.result.id = id;
  turn.prompt = static_cast<std::int64_t>(prompt.size());
  s.turns.insert(s.turns.begin() + static_cast<std::ptrdiff_t>(urgent ? s.urgent++ : s.turns.size()), std::move(turn));
  return {};
}

void Decoder::cancel(TurnId id) {
  const auto found = state_->find(id);
  if (found != state_->turns.end()) state_->remove(found);
}

std::vector<FinishedTurn> Decoder::step(bool urgent_only) {
  State& s = *state_;
  std::vector<FinishedTurn> finished;
  const std::span<Turn> stepping = s.in_front(urgent_only ? s.urgent : s.turns.size());
  if (stepping.empty()) return finished;
  const c10::InferenceMode no_gradients;
  s.feed_prompts(stepping);
  const at::Tensor logits = s.next_logits(stepping).cpu();
  for (std::size_t i = stepping.size(); i-- > 0;) {  // backwards: a turn that leaves moves only such as are done
    Turn& turn = s.turns[i];
    if (turn.cached < static_cast<std::int64_t>(turn.tokens.size())) continue;
    const Drawn drawn = draw(logits[static_cast<std::int64_t>(i)], turn.sampling, turn.result.tokens.size());
    if (!s.append(turn, drawn)) continue;
    finished.push_back(std::move(turn.result));
    s.remove(s.turns.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return finished;
}

expected<void> Decoder::swap(SnapshotPtr weights) {
  State& s = *state_;
  if (!weights) return fail("no weights were given");
  if (weights->architecture != s.transformer.snapshot().architecture) return fail("weights of another architecture");
  if (const auto& good = weights->checked(); !good) return good;
  s.transformer.swap(std::move(weights));
  for (Turn& turn : s.turns) {
    turn.current = 0;
    if (!s.settings.recompute_on_swap) continue;
    turn.cached = 0;
    turn.cache.clear();
  }
  return {};
}

SampledTokens Decoder::sampled_since(TurnId id, std::size_t from) const {
  const auto turn = state_->find(id);
  if (turn == state_->turns.end() || from >= turn->result.tokens.size()) return {};
  const auto first = static_cast<std::ptrdiff_t>(from);
  const FinishedTurn& so_far = turn->result;
  return {{so_far.tokens.begin() + first, so_far.tokens.end()},
          {so_far.logp.begin() + first, so_far.logp.end()},
          {so_far.versions.begin() + first, so_far.versions.end()},
          so_far.top.empty() ? std::vector<TopTokens>() : std::vector(so_far.top.begin() + first, so_far.top.end())};
}

std::size_t Decoder::live() const { return state_->turns.size(); }
std::size_t Decoder::urgent() const { return state_->urgent; }
Version Decoder::version() const { return state_->transformer.snapshot().version; }
std::uint64_t Decoder::prompt_tokens() const { return state_->prompt_fed; }
std::uint64_t Decoder::generated_tokens() const { return state_->sampled; }

}  // namespace millrace
