#pragma once
// A small random model, random trajectories and ways to feed them for the learners' tests. Everything follows from the
// seeds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "tests/torch_doctest.hpp"

#include "models/policy_learner.hpp"
#include "models/sequence.hpp"
#include "models/transformer.hpp"
#include "models/value_learner.hpp"

namespace millrace::testing {

inline Architecture small_architecture(bool tied) {
  return {.vocab = 259,
          .hidden = 32,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 8,
          .intermediate = 48,
          .tied = tied};
}

// Also sets one thread: more would wait for each other longer than so small a model computes.
inline Model small_model(bool tied = true, std::uint64_t seed = 1) {
  use_threads(1);
  const Architecture a = small_architecture(tied);
  at::manual_seed(seed);
  const auto matrix = [](std::int64_t out, std::int64_t in) { return at::randn({out, in}) * 0.15; };
  const auto norm = [&] { return at::ones({a.hidden}) + at::randn({a.hidden}) * 0.1; };
  Weights weights;
  weights.embedding = matrix(a.vocab, a.hidden);
  for (std::int64_t i = 0; i < a.layers; ++i) {
    weights.layers.push_back({.attention_norm = norm(),
                              .q = matrix(a.heads * a.head_dim, a.hidden),
                              .k = matrix(a.kv_heads * a.head_dim, a.hidden),
                              .v = matrix(a.kv_heads * a.head_dim, a.hidden),
                              .o = matrix(a.hidden, a.heads * a.head_dim),
                              .mlp_norm = norm(),
                              .gate = matrix(a.intermediate, a.hidden),
                              .up = matrix(a.intermediate, a.hidden),
                              .down = matrix(a.hidden, a.intermediate)});
  }
  weights.final_norm = norm();
  weights.head = tied ? weights.embedding : matrix(a.vocab, a.hidden);
  return {.weights = std::make_shared<const Snapshot>(0, a, weights),
          .tokenizer = std::make_shared<const Tokenizer>(Tokenizer::bytes()),
          .name = "small"};
}

struct Batch {
  std::vector<Sequence> sequences;
  std::vector<std::vector<float>> advantages;
};

// Trajectories of unlike lengths with the mask prompt, actions, observation, actions; all begin with the same 3 tokens.
inline Batch random_batch(std::size_t count, std::size_t actions, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<TokenId> token(0, 255);
  std::normal_distribution<float> normal;
  Batch batch;
  for (std::size_t i = 0; i < count; ++i) {
    Sequence sequence;
    std::vector<float> advantages;
    const auto append = [&](std::size_t length, std::uint8_t is_action) {
      for (std::size_t t = 0; t < length; ++t) {
        sequence.tokens.push_back(token(random));
        sequence.mask.push_back(is_action);
        sequence.behaviour.push_back(is_action ? -5.5f + 0.3f * normal(random) : 0.0f);
        sequence.rewards.push_back(is_action ? 0.1f * normal(random) : 0.0f);
        advantages.push_back(is_action ? normal(random) : 0.0f);
      }
    };
    append(4 + i % 3, 0);
    append(actions / 2, 1);
    append(2, 0);
    append(actions - actions / 2 + i % 2, 1);
    for (std::size_t t = 0; t < 3; ++t) sequence.tokens[t] = static_cast<TokenId>(65 + t);
    sequence.rewards.back() += 1.0f;
    if (i % 4 == 1) sequence.temperature = 0.7;
    batch.sequences.push_back(std::move(sequence));
    batch.advantages.push_back(std::move(advantages));
  }
  return batch;
}

// |a - b| / |b|
inline double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    size += std::pow(double{b[i]}, 2);
  }
  REQUIRE(size > 0);
  return std::sqrt(difference / size);
}

inline std::vector<float> flat(const std::vector<at::Tensor>& tensors) {
  std::vector<float> numbers;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor plain = tensor.detach().contiguous();
    numbers.insert(numbers.end(), plain.const_data_ptr<float>(), plain.const_data_ptr<float>() + plain.numel());
  }
  return numbers;
}

inline std::vector<float> flat(const Snapshot& snapshot) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(snapshot.weights, snapshot.architecture.tied,
                  [&](const std::string&, const at::Tensor& tensor) { tensors.push_back(tensor); });
  return flat(tensors);
}

// SAO within a band narrow enough for the random batches to leave it, and with none.
inline const Recipe band{.trust_region = {.low = 0.3, .high = 0.5}};
inline const Recipe everything{.trust_region = {.low = 1.0, .high = 1e9}};

inline PolicySettings policy_in_float32(double lr = 0.01) {
  PolicySettings settings;
  settings.lr = lr;
  settings.dtype = "float32";
  return settings;
}

// Hands a batch over in packs of the given size.
inline PolicySums feed(PolicyLearner& learner, const Batch& batch, std::size_t pack) {
  PolicySums sums;
  for (std::size_t i = 0; i < batch.sequences.size(); i += pack) {
    const std::size_t size = std::min(pack, batch.sequences.size() - i);
    sums +=
        learner.accumulate(std::span(batch.sequences).subspan(i, size), std::span(batch.advantages).subspan(i, size));
  }
  return sums;
}

using Sequences = std::vector<Sequence>;
using Valuations = std::vector<Valuation>;

inline ValueSettings critic_in_float32(int updates = 2) {
  ValueSettings settings;
  settings.lr = 0.01;
  settings.updates_per_step = updates;
  settings.dtype = "float32";
  return settings;
}

inline Valuations feed(ValueLearner& learner, const Sequences& sequences, std::size_t pack) {
  Valuations all;
  for (std::size_t i = 0; i < sequences.size(); i += pack) {
    const std::size_t size = std::min(pack, sequences.size() - i);
    const Valuations part = learner.arrive(std::span(sequences).subspan(i, size));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

inline Sequences trajectories(std::size_t count, std::uint32_t seed) { return random_batch(count, 6, seed).sequences; }

inline std::vector<float> at_actions(const Sequences& sequences, const Valuations& valuations,
                                     std::vector<float> Valuation::*field) {
  std::vector<float> numbers;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    for (std::size_t t = 0; t < sequences[i].mask.size(); ++t) {
      if (sequences[i].mask[t]) numbers.push_back((valuations[i].*field)[t]);
    }
  }
  return numbers;
}

}  // namespace millrace::testing
