#include "models/bench.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <stdexcept>

#include "models/compute.hpp"
#include "models/decoder.hpp"
#include "models/policy_learner.hpp"
#include "models/transformer.hpp"
#include "models/value_learner.hpp"

namespace millrace {

namespace {

constexpr int rounds = 5;

template <class Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

// What is narrower than float32 can be multiplied as float32.
double flops_of(const MachineLimits& limits, at::ScalarType dtype) {
  return dtype == at::kFloat ? limits.float32_flops : std::max(limits.float32_flops, limits.bfloat16_flops);
}

// Weights that a token is multiplied with: in the layers, and in the head. Of experts only those it goes through.
struct Multiplied {
  double layers = 0, head = 0;
};
Multiplied multiplied(const Snapshot& snapshot) {
  const Architecture& a = snapshot.architecture;
  Multiplied count;
  for (const Layer& layer : snapshot.weights.layers) {
    const double share =
        a.experts > 0 ? static_cast<double>(a.experts_per_token) / static_cast<double>(a.experts) : 1.0;
    for (const at::Tensor* matrix : {&layer.q, &layer.k, &layer.v, &layer.o}) {
      count.layers += static_cast<double>(matrix->numel());
    }
    for (const at::Tensor* matrix : {&layer.gate, &layer.up, &layer.down}) {
      count.layers += share * static_cast<double>(matrix->numel());
    }
  }
  count.head = static_cast<double>(snapshot.weights.head.numel());
  return count;
}

// Any text will do: what is in it does not change what it costs.
Tokens random_tokens(const Model& model, int count, std::mt19937& random) {
  const auto vocab = static_cast<TokenId>(model.weights->architecture.vocab);
  std::uniform_int_distribution<TokenId> token(0, vocab - 1);
  Tokens tokens;
  while (static_cast<int>(tokens.size()) < count) {
    if (const TokenId drawn = token(random); !model.tokenizer->ends_turn(drawn)) tokens.push_back(drawn);
  }
  return tokens;
}

// A decoder whose turns never run out: one that ends begins anew with its prompt.
class LiveTurns {
 public:
  LiveTurns(const Model& model, const BenchOptions& options)
      : decoder(model, {.max_context = options.prompt + longest(options), .dtype = options.dtype}), options_(options) {
    std::mt19937 random(1);
    for (int turn = 0; turn < options.batch; ++turn) {
      prompts_.push_back(random_tokens(model, options.prompt, random));
      start(static_cast<TurnId>(turn));
    }
  }

  // Seconds of each of so many steps.
  std::vector<double> decode(int steps) {
    std::vector<double> seconds;
    for (int step = 0; step < steps; ++step) {
      std::vector<FinishedTurn> finished;
      seconds.push_back(seconds_of([&] { finished = decoder.step(); }));
      for (const FinishedTurn& turn : finished) start(turn.id);
    }
    return seconds;
  }

  Decoder decoder;

 private:
  static int longest(const BenchOptions& options) { return 4 * options.tokens + 64; }
  void start(TurnId id) {
    const auto started =
        decoder.start(id, prompts_[id], {.max_tokens = longest(options_), .seed = decoder.generated_tokens() + id});
    if (!started) throw std::logic_error("bench: " + started.error().message);
  }

  BenchOptions options_;
  std::vector<Tokens> prompts_;
};

Sequence trajectory(const Model& model, int length, std::mt19937& random) {
  Sequence sequence;
  sequence.tokens = random_tokens(model, length, random);
  const auto count = sequence.tokens.size();
  sequence.mask.assign(count, 0);
  std::fill(sequence.mask.begin() + std::ssize(sequence.mask) / 2, sequence.mask.end(), std::uint8_t{1});
  sequence.behaviour.assign(count, -3.0f);
  sequence.rewards.assign(count, 0.0f);
  sequence.rewards.back() = 1.0f;
  return sequence;
}

}  // namespace

std::vector<Figure> bench_generation(const Model& model, const BenchOptions& options, const MachineLimits& limits) {
  const at::ScalarType dtype = compute_of(options.dtype).dtype;
  LiveTurns turns(model, options);
  const double prompts = seconds_of([&] {
    while (turns.decoder.prompt_tokens() < static_cast<std::uint64_t>(options.batch * options.prompt)) turns.decode(1);
  });
  const double step = median(turns.decode(options.tokens));

  const Multiplied weights = multiplied(*model.weights);
  const Architecture& a = model.weights->architecture;
  const double context = options.prompt + options.tokens / 2.0, batch = options.batch;
  const double cached = 2.0 * static_cast<double>(a.layers * a.kv_heads * a.head_dim) * context * batch;
  const auto number = static_cast<double>(c10::elementSize(dtype));
  const double cache_number = dtype == at::kBFloat16 ? 2 : 4;
  const double reading =
      ((weights.layers + weights.head) * number + cached * cache_number) / limits.read_bytes_per_second;
  const double computing = 2 * batch * (weights.layers + weights.head) / flops_of(limits, dtype);
  const double prompt_tokens = batch * options.prompt;
  return {{"generation", batch / step, "tokens/s", std::max(reading, computing) / step},
          {"decode_step", step * 1e3, "ms", std::max(reading, computing) / step},
          {"prompt", prompt_tokens / prompts, "tokens/s",
           2 * prompt_tokens * weights.layers / flops_of(limits, dtype) / prompts}};
}

std::vector<Figure> bench_learning(Model model, const BenchOptions& options, const MachineLimits& limits) {
  std::mt19937 random(1);
  PolicySettings policy_settings;
  ValueSettings value_settings;
  policy_settings.dtype = value_settings.dtype = options.dtype;
  policy_settings.recompute_activations = value_settings.recompute_activations = options.recompute_activations;
  const Recipe recipe;
  PolicyLearner policy(model, policy_settings, recipe);
  ValueLearner value(model, value_settings, recipe.baseline);
  std::vector<Sequence> batch;
  for (int i = 0; i < options.batch; ++i) batch.push_back(trajectory(model, options.tokens, random));
  const Multiplied weights = multiplied(*model.weights);
  model.weights.reset();
  const std::vector<std::vector<float>> advantages(batch.size(),
                                                   std::vector<float>(static_cast<std::size_t>(options.tokens), 1.0f));
  std::vector<double> policy_seconds, value_seconds;
  for (int round = 0; round <= rounds; ++round) {  // the first one is not counted: it takes memory for the first time
    policy_seconds.push_back(seconds_of([&] {
      policy.accumulate(batch, advantages);
      policy.step(static_cast<Version>(round) + 1);
    }));
    value_seconds.push_back(seconds_of([&] {
      value.arrive(batch);
      value.step();
    }));
  }
  const double policy_step = median({policy_seconds.begin() + 1, policy_seconds.end()});
  const double value_step = median({value_seconds.begin() + 1, value_seconds.end()});
  const double tokens = static_cast<double>(options.batch) * options.tokens;
  const double policy_limit =
      6 * tokens * (weights.layers + weights.head / 2) / flops_of(limits, compute_of(options.dtype).dtype);
  return {{"policy_learning", tokens / policy_step, "tokens/s", policy_limit / policy_step},
          {"policy_step", policy_step * 1e3, "ms", policy_limit / policy_step},
          {"value_learning", tokens * value_settings.updates_per_step / value_step, "token passes/s"}};
}

std::vector<Figure> bench_publishing(const Model& model, const BenchOptions& options, const MachineLimits& limits) {
  std::mt19937 random(1);
  LiveTurns turns(model, options);
  turns.decode(1);
  PolicyLearner learner(model, PolicySettings{}, Recipe{});
  const std::vector<Sequence> batch(1, trajectory(model, 16, random));
  const std::vector<std::vector<float>> advantages(1, std::vector<float>(16, 1.0f));
  std::vector<double> preparing, pauses, steps;
  for (Version version = 1; version <= rounds; ++version) {
    learner.accumulate(batch, advantages);
    const SnapshotPtr published = learner.step(version).weights;
    preparing.push_back(seconds_of([&] { prepare(*published, options.dtype); }));
    pauses.push_back(seconds_of([&] {
      if (const auto taken = turns.decoder.swap(published); !taken)
        throw std::logic_error("bench: " + taken.error().message);
    }));
    for (const double step : turns.decode(options.tokens / 8 + 1)) steps.push_back(step);
  }
  const Multiplied weights = multiplied(*model.weights);
  const double reading = 4 * (weights.layers + weights.head) / limits.read_bytes_per_second;  // the masters, once
  return {{"publish_pause", median(pauses) * 1e3, "ms"},
          {"decode_step", median(steps) * 1e3, "ms"},
          {"pause_in_steps", median(pauses) / median(steps), "decode steps"},
          {"prepare", median(preparing) * 1e3, "ms", reading / median(preparing)}};
}

}  // namespace millrace
