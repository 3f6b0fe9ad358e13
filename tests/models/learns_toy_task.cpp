// Decoder and both learners in a plain loop, no actors: the smallest proof that the parts teach a model something.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/torch_doctest.hpp"

#include "models/decoder.hpp"
#include "models/policy_learner.hpp"
#include "models/value_learner.hpp"

namespace millrace {
namespace {

constexpr std::size_t batch = 16;
constexpr int new_tokens = 16;

// Share of the answer's bytes that are vowels.
float reward_of(const Tokens& answer) {
  constexpr std::string_view vowels = "aeiou";
  float hits = 0;
  for (const TokenId token : answer) {
    if (token < 128 && vowels.find(static_cast<char>(token)) != std::string_view::npos) ++hits;
  }
  return hits / static_cast<float>(answer.size());
}

Sequence sequence_of(const Tokens& prompt, const FinishedTurn& turn) {
  Sequence sequence{.tokens = prompt,
                    .mask = std::vector<std::uint8_t>(prompt.size(), 0),
                    .behaviour = std::vector<float>(prompt.size(), 0.0f),
                    .rewards = std::vector<float>(prompt.size(), 0.0f)};
  sequence.tokens.insert(sequence.tokens.end(), turn.tokens.begin(), turn.tokens.end());
  sequence.mask.resize(sequence.tokens.size(), 1);
  sequence.behaviour.insert(sequence.behaviour.end(), turn.logp.begin(), turn.logp.end());
  sequence.rewards.resize(sequence.tokens.size(), 0.0f);
  sequence.rewards.back() = reward_of(turn.tokens);
  return sequence;
}

std::vector<Sequence> rollouts(Decoder& decoder, const Tokens& prompt, TurnId& next_id) {
  for (std::size_t i = 0; i < batch; ++i) {
    Sampling sampling;
    sampling.max_tokens = new_tokens;
    sampling.seed = ++next_id;
    REQUIRE(decoder.start(next_id, prompt, sampling));
  }
  std::vector<Sequence> sequences;
  while (decoder.live() > 0) {
    for (const FinishedTurn& turn : decoder.step()) sequences.push_back(sequence_of(prompt, turn));
  }
  return sequences;
}

double mean_reward(const std::vector<Sequence>& sequences) {
  double sum = 0;
  for (const Sequence& sequence : sequences) sum += sequence.rewards.back();
  return sum / static_cast<double>(sequences.size());
}

void teach(const ModelSettings& settings) {
  use_threads(1);  // more would wait for each other longer than so small a model computes
  const auto model = load_model(settings, 1);
  REQUIRE(model);
  PolicySettings policy_settings;
  policy_settings.lr = 3e-3;
  policy_settings.dtype = "float32";  // as the decoder computes
  ValueSettings value_settings;
  value_settings.lr = 3e-3;
  value_settings.dtype = "float32";
  const Recipe sao;
  Decoder decoder(*model, DecoderSettings{.max_context = 64});
  PolicyLearner policy(*model, policy_settings, sao);
  ValueLearner value(*model, value_settings, sao.baseline);
  const Tokens prompt = model->tokenizer->encode("say:");

  TurnId next_id = 0;
  double first = 0, last = 0;
  Version version = 0;
  while (version < 150 && last < 0.85) {
    const std::vector<Sequence> sequences = rollouts(decoder, prompt, next_id);
    std::vector<std::vector<float>> advantages;
    for (Valuation& valuation : value.arrive(sequences)) advantages.push_back(std::move(valuation.advantages));
    value.step();
    const PolicySums sums = policy.accumulate(sequences, advantages);
    // On policy the decoder's log-probs and the learner's are those of the same distribution.
    CHECK(sums.kl / sums.tokens < 1e-6);
    PolicyStep step = policy.step(++version);
    REQUIRE(step.weights);
    REQUIRE(decoder.swap(step.weights));
    last = mean_reward(sequences);
    if (version == 1) first = last;
  }
  CAPTURE(version);
  CHECK(first < 0.1);
  CHECK(last > 0.8);
}

TEST_CASE("SAO teaches a random model to answer in vowels") { teach({}); }

// The critic trains the experts' projections and its head; the policy trains everything, the router included.
TEST_CASE("SAO teaches a mixture of experts the same") {
  ModelSettings settings;
  settings.random.experts = 4;
  settings.random.intermediate = 64;
  teach(settings);
}

}  // namespace
}  // namespace millrace
