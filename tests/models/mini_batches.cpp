// Several optimizer steps a policy step, and what every recipe's gradient must not depend on.
#include "models/mini_batches.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "tests/models/learner_fixture.hpp"
#include "tests/models/reference.hpp"

namespace millrace {
namespace {

using namespace testing;

const Recipe& recipe_of(const std::string& name) {
  return *std::find_if(recipes.begin(), recipes.end(), [&](const Recipe& recipe) { return recipe.name == name; });
}

Recipe in_parts(const char* name, int parts) {
  Recipe recipe = recipe_of(name);
  recipe.loss.mini_batches = parts;
  recipe.trust_region = {.low = 0.3, .high = 0.3};
  return recipe;
}

void add(MiniBatches& batches, const Batch& batch, std::size_t begin, std::size_t end) {
  batches.add(std::span(batch.sequences).subspan(begin, end - begin),
              std::span(batch.advantages).subspan(begin, end - begin));
}

TEST_CASE("log-probs are those of the policy as it is, at each sequence's temperature") {
  const Model model = small_model();
  const Batch batch = random_batch(3, 6, 41);
  PolicyLearner learner(model, policy_in_float32(), band);
  const auto logp = learner.log_probs(batch.sequences);
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const Sequence& sequence = batch.sequences[i];
    const auto all = learner_logp(*model.weights, sequence.tokens, 1, sequence.temperature);
    for (std::size_t t = 1; t < sequence.tokens.size(); ++t) {
      CHECK(logp[i][t] == doctest::Approx(sequence.mask[t] ? all[t - 1] : 0).epsilon(1e-5));
    }
  }
}

TEST_CASE("one part is the learner itself") {
  const Model model = small_model();
  const Batch batch = random_batch(4, 6, 42);
  PolicyLearner inside(model, policy_in_float32(), band), alone(model, policy_in_float32(), band);
  MiniBatches batches(inside, band, 4);
  add(batches, batch, 0, 4);
  feed(alone, batch, 4);
  const PolicyStep step = batches.step(1), right = alone.step(1);
  REQUIRE(step.weights);
  CHECK(flat(*step.weights) == flat(*right.weights));
}

TEST_CASE("each part makes a step of its own; the proximal policy is the one at the start of the batch") {
  const Model model = small_model();
  const Batch batch = random_batch(4, 6, 43);
  for (const char* name : {"grpo", "decoupled_ppo"}) {
    CAPTURE(name);
    const Recipe recipe = in_parts(name, 2);
    PolicyLearner inside(model, policy_in_float32(), recipe), by_hand(model, policy_in_float32(), recipe);
    MiniBatches batches(inside, recipe, 2);
    add(batches, batch, 0, 1);  // arrives in other portions than it is split into
    add(batches, batch, 1, 4);
    const PolicyStep step = batches.step(7);
    REQUIRE(step.weights);
    CHECK(step.weights->version == 7);
    CHECK(step.sums.tokens == 4 * 6 + 2);

    const auto proximal = by_hand.log_probs(batch.sequences);
    SnapshotPtr weights;
    for (const std::size_t begin : {std::size_t{0}, std::size_t{2}}) {
      by_hand.accumulate(std::span(batch.sequences).subspan(begin, 2), std::span(batch.advantages).subspan(begin, 2),
                         std::span(proximal).subspan(begin, 2));
      weights = by_hand.step(7).weights;
    }
    CHECK(relative_distance(flat(*step.weights), flat(*weights)) < 1e-6);
    // The next batch starts from there.
    add(batches, batch, 0, 4);
    CHECK(batches.step(8).weights);
  }
}

TEST_CASE("a part that cannot be trained does not lose the others") {
  const Model model = small_model();
  Batch batch = random_batch(4, 6, 44);
  for (float& advantage : batch.advantages[0]) advantage = 3e38f;
  for (float& advantage : batch.advantages[1]) advantage = 3e38f;
  Recipe recipe = in_parts("running_mean", 2);
  recipe.trust_region = everything.trust_region;
  PolicyLearner learner(model, policy_in_float32(), recipe);
  MiniBatches batches(learner, recipe, 2);
  add(batches, batch, 0, 4);
  const PolicyStep step = batches.step(1);
  REQUIRE(step.weights);
  CHECK(step.skipped.empty());
  add(batches, batch, 0, 2);
  CHECK(batches.step(2).skipped == "non-finite gradient");
}

TEST_CASE("every recipe: the gradient does not depend on packs or order") {
  const Model model = small_model();
  const Batch batch = random_batch(6, 8, 45);
  Batch reversed = batch;
  std::reverse(reversed.sequences.begin(), reversed.sequences.end());
  std::reverse(reversed.advantages.begin(), reversed.advantages.end());
  for (Recipe recipe : recipes) {
    CAPTURE(recipe.name);
    recipe.trust_region = {.low = 0.3, .high = 0.5};
    recipe.loss.kl_weight = recipe.loss.entropy_weight = 0.1;
    PolicyLearner whole(model, policy_in_float32(), recipe);
    const PolicySums right = feed(whole, batch, 6);
    if (recipe.name == "sao") CHECK(right.masked_low + right.masked_high > 0);
    for (const std::size_t pack : {std::size_t{1}, std::size_t{4}}) {
      PolicyLearner streamed(model, policy_in_float32(), recipe);
      const PolicySums sums = feed(streamed, reversed, pack);
      CHECK(relative_distance(streamed.gradient(), whole.gradient()) < 1e-5);
      CHECK(sums.loss == doctest::Approx(right.loss).epsilon(1e-4));
      CHECK(sums.shares == doctest::Approx(right.shares).epsilon(1e-6));
    }
  }
}

// Loss of the whole batch at given weights, to be differentiated by moving them.
double loss_at(const Model& model, SnapshotPtr weights, const Recipe& recipe, const Batch& batch) {
  Model moved = model;
  moved.weights = std::move(weights);
  PolicyLearner learner(moved, policy_in_float32(), recipe);
  return feed(learner, batch, 6).loss;
}

TEST_CASE("clip, sequence ratio and entropy: the loss falls along the gradient as fast as its length says") {
  const Model model = small_model();
  Batch batch = random_batch(4, 8, 46);
  for (std::size_t i = 0; i < 4; ++i) {  // one advantage a sequence, as GSPO has it
    std::fill(batch.advantages[i].begin(), batch.advantages[i].end(), i % 2 == 0 ? 0.8f : -0.5f);
  }
  for (const std::string name : {"grpo", "gspo", "vapo"}) {
    CAPTURE(name);
    Recipe recipe = recipe_of(name);
    recipe.trust_region = {.low = 0.9, .high = 5.0};
    recipe.loss.entropy_weight = 0.1;
    PolicyLearner learner(model, policy_in_float32(), recipe);
    feed(learner, batch, 4);
    const auto gradient = learner.gradient();
    double squares = 0;
    for (const float number : gradient) squares += double{number} * number;
    const double step = 1e-3 / std::sqrt(squares);
    const auto moved = [&](double factor) {
      Weights weights = model.weights->weights;
      std::size_t next = 0;
      for_each_tensor(weights, true, [&](const std::string&, at::Tensor& tensor) {
        tensor = tensor.clone();
        auto* numbers = tensor.data_ptr<float>();
        for (std::int64_t i = 0; i < tensor.numel(); ++i) {
          numbers[i] += static_cast<float>(factor * step) * gradient[next++];
        }
      });
      weights.head = weights.embedding;
      return std::make_shared<const Snapshot>(0, model.weights->architecture, weights);
    };
    const double difference = loss_at(model, moved(1), recipe, batch) - loss_at(model, moved(-1), recipe, batch);
    CHECK(difference == doctest::Approx(2 * step * squares).epsilon(0.02));
  }
}

}  // namespace
}  // namespace millrace
