#include "models/value_learner.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "tests/models/learner_fixture.hpp"

#include "models/objectives/explained_variance.hpp"
#include "models/objectives/gae.hpp"
#include "models/optimizer.hpp"

namespace millrace {
namespace {

using namespace testing;
// Away from the zero head, so that values say something.
ValueLearner& warmed_up(ValueLearner& learner) {
  for (std::uint32_t seed = 100; seed < 103; ++seed) {
    feed(learner, trajectories(4, seed), 4);
    REQUIRE_FALSE(learner.step().skipped);
  }
  return learner;
}

TEST_CASE("the head starts at zero: values are 0, advantages and targets the returns") {
  ValueLearner learner(small_model(), critic_in_float32(), Baseline{.lambda_policy_alpha = 1e9});
  Sequence sequence{.tokens = {65, 66, 67, 68, 69},
                    .mask = {0, 1, 0, 1, 1},
                    .behaviour = {0, -5, 0, -5, -5},
                    .rewards = {0, 0, 0.5f, 0, 1}};
  const Valuation valuation = learner.arrive({&sequence, 1}).front();
  CHECK(valuation.values == std::vector<float>{0, 0, 0, 0, 0});
  CHECK(valuation.targets == std::vector<float>{0, 1.5f, 0, 1, 1});
  CHECK(valuation.advantages[1] == doctest::Approx(1.5));
  CHECK(valuation.advantages[2] == 0);
  CHECK(valuation.advantages[4] == doctest::Approx(1));
  const ValueStep step = learner.step();
  CHECK(step.loss == doctest::Approx(0.5 * (2.25 + 1 + 1) / 3));
  CHECK(step.advantage_rms == doctest::Approx(std::sqrt((2.25 + 1 + 1) / 3)));
}

TEST_CASE("advantages are skip-observation GAE of the learner's own values over the running RMS, in two passes") {
  const Baseline baseline{.gamma = 0.97, .lambda_policy_alpha = 1.5, .lambda_value = 1.0};
  ValueLearner learner(small_model(), critic_in_float32(), baseline);
  warmed_up(learner);
  feed(learner, trajectories(4, 30), 4);
  const double divisor = learner.step().advantage_rms;
  CHECK(std::abs(divisor - 1) > 0.01);

  const Sequences sequences = trajectories(3, 31);
  const Valuations valuations = feed(learner, sequences, 3);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& s = sequences[i];
    const std::vector<double> values(valuations[i].values.begin(), valuations[i].values.end());
    const double lambda = 1 - 1 / (1.5 * static_cast<double>(std::count(s.mask.begin(), s.mask.end(), 1)));
    const auto advantages = skip_observation_gae(s.mask, values, s.rewards, 0, 0.97, lambda);
    const auto errors = skip_observation_gae(s.mask, values, s.rewards, 0, 0.97, 1.0);
    for (std::size_t t = 0; t < s.mask.size(); ++t) {
      CHECK(valuations[i].advantages[t] == doctest::Approx(advantages[t] / divisor).epsilon(1e-5));
      CHECK(valuations[i].targets[t] == doctest::Approx(s.mask[t] ? errors[t] + values[t] : 0).epsilon(1e-5));
    }
  }
}

TEST_CASE("plain GAE: without skip_observations every token after the first action is a transition") {
  Baseline baseline{.lambda_policy_alpha = 0.5};
  baseline.skip_observations = false;
  ValueLearner learner(small_model(), critic_in_float32(), baseline);
  warmed_up(learner);
  const double divisor = learner.step().advantage_rms;
  const Sequence sequence{.tokens = {65, 66, 67, 68, 69},
                          .mask = {0, 1, 0, 0, 1},
                          .behaviour = {0, -5, 0, 0, -5},
                          .rewards = {0, 0, 0, 0, 1}};
  const Valuation valuation = learner.arrive({&sequence, 1}).front();
  const std::vector<double> v(valuation.values.begin(), valuation.values.end());
  double advantage = 0;
  for (std::size_t t = 5; t-- > 1;) {  // four transitions: lambda is 1/2
    advantage = (t == 4 ? 1 : v[t + 1]) - v[t] + 0.5 * advantage;
    CHECK(valuation.advantages[t] == doctest::Approx(advantage / divisor).epsilon(1e-5));
  }
  CHECK(v[2] != 0);
}

TEST_CASE("V[t] is the value before token t; where the trajectory is not over, the value after its last token counts") {
  ValueLearner learner(small_model(), critic_in_float32(), Baseline{});
  warmed_up(learner);
  Sequence sequence{
      .tokens = {65, 66, 67, 68}, .mask = {0, 0, 1, 1}, .behaviour = {0, 0, -5, -5}, .rewards = {0, 0, 0, 0}};
  const auto values = [&](const Sequence& s) { return learner.arrive({&s, 1}).front().values; };
  const auto right = values(sequence);

  Sequence other = sequence;
  other.tokens[2] = 99;
  CHECK(values(other)[2] == right[2]);
  CHECK(std::abs(values(other)[3] - right[3]) > 1e-4f);

  Sequence longer = sequence;  // the value after token 3 is the one before token 4
  longer.tokens.push_back(70);
  longer.mask.push_back(1);
  longer.behaviour.push_back(-5);
  longer.rewards.push_back(0);
  const float after_last = values(longer)[4];
  REQUIRE(std::abs(after_last) > 1e-3f);
  CHECK(learner.arrive({&sequence, 1}).front().targets[3] == 0);
  sequence.terminal = false;
  CHECK(learner.arrive({&sequence, 1}).front().targets[3] == doctest::Approx(after_last).epsilon(1e-5));
}

TEST_CASE("B15, B16: values and gradient are the same alone and packed, in any order") {
  const Model model = small_model();
  const Sequences sequences = trajectories(8, 32);
  Sequences reversed(sequences.rbegin(), sequences.rend());
  ValueLearner whole(model, critic_in_float32(), Baseline{});
  const Valuations right = feed(warmed_up(whole), sequences, 8);
  for (const std::size_t pack : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
    CAPTURE(pack);
    ValueLearner streamed(model, critic_in_float32(), Baseline{}), backwards(model, critic_in_float32(), Baseline{});
    const Valuations valuations = feed(warmed_up(streamed), sequences, pack);
    feed(warmed_up(backwards), reversed, pack);
    const auto values = at_actions(sequences, valuations, &Valuation::values);
    CHECK(relative_distance(values, at_actions(sequences, right, &Valuation::values)) < 1e-5);
    CHECK(relative_distance(streamed.gradient(), whole.gradient()) < 1e-5);
    CHECK(relative_distance(backwards.gradient(), whole.gradient()) < 1e-5);
  }
}

// A critic that went on predicting the old level would call everything bad, whatever the policy wrote.
TEST_CASE(
    "after a shift the critic is at the new reward's level at once; what the old spec scored is compared as before") {
  const auto scored = [](std::uint32_t seed, std::uint64_t version, float more) {
    Sequences sequences = trajectories(8, seed);
    for (Sequence& sequence : sequences) {
      sequence.reward_version = version;
      sequence.rewards.back() += more;
    }
    return sequences;
  };
  ValueLearner shifted(small_model(), critic_in_float32(), Baseline{}),
      unshifted(small_model(), critic_in_float32(), Baseline{});
  for (ValueLearner* learner : {&shifted, &unshifted}) feed(warmed_up(*learner), scored(50, 1, 0), 8);

  const Sequences under_new = scored(51, 2, -5);
  const Valuations valuations = feed(shifted, under_new, 4);
  const auto values = at_actions(under_new, valuations, &Valuation::values);
  const auto targets = at_actions(under_new, valuations, &Valuation::targets);
  double surplus = 0;  // of the second pack: the level was found from all before it and itself
  for (std::size_t i = 0; i < values.size(); ++i)
    surplus += (targets[i] - values[i]) / static_cast<double>(values.size());
  CHECK(std::abs(surplus) < 0.3);

  const Sequences under_old = scored(52, 1, 0);
  const auto as_before = at_actions(under_old, feed(unshifted, under_old, 8), &Valuation::advantages);
  CHECK(relative_distance(at_actions(under_old, feed(shifted, under_old, 8), &Valuation::advantages), as_before) <
        1e-4);

  // A checkpoint knows the levels, too.
  ValueLearner resumed(small_model(), critic_in_float32(), Baseline{});
  REQUIRE_FALSE(shifted.step().skipped);
  REQUIRE(resumed.restore(shifted.image()->tensors()));
  const auto right = at_actions(under_old, feed(shifted, under_old, 8), &Valuation::advantages);
  CHECK(at_actions(under_old, feed(resumed, under_old, 8), &Valuation::advantages) == right);
}

TEST_CASE("frozen attention: neither attention nor embedding is trained, and the backbone's weights never change") {
  const Model model = small_model();
  const auto loaded = flat(*model.weights);
  // hidden 32, intermediate 48, 2 layers: 3 MLP matrices and 2 norms a layer, the final norm, the head and its bias
  const std::size_t trained = 2 * (3 * 32 * 48 + 2 * 32) + 32 + 32 + 1;
  ValueLearner frozen(model, critic_in_float32(), Baseline{});
  warmed_up(frozen);
  CHECK(frozen.gradient().size() == trained);

  ValueSettings settings = critic_in_float32();
  settings.freeze = "none";
  ValueLearner everything(model, settings, Baseline{});
  warmed_up(everything);
  CHECK(everything.gradient().size() == loaded.size() + 32 + 1);
  CHECK(flat(*model.weights) == loaded);

  settings.freeze = "all_but_head";
  ValueLearner head_only(model, settings, Baseline{});
  warmed_up(head_only);
  CHECK(head_only.gradient().size() == 32 + 1);
  CHECK(flat(*model.weights) == loaded);

  settings.freeze = "heads";
  CHECK_THROWS_AS(ValueLearner(model, settings, Baseline{}), std::invalid_argument);
}

// The critic written out by hand: plain autograd over one sequence at a time.
struct HandMadeCritic {
  HandMadeCritic(const Model& model, bool frozen)
      : architecture(model.weights->architecture), weights(model.weights->weights) {
    for_each_tensor(weights, true, [&](const std::string& name, at::Tensor& tensor) {
      if (frozen && (name.find("self_attn") != std::string::npos || name.find("embed") != std::string::npos)) return;
      parameters.push_back(tensor = tensor.clone().requires_grad_(true));
    });
    parameters.push_back(head = at::zeros({1, architecture.hidden}).requires_grad_(true));
    parameters.push_back(bias = at::zeros({1}).requires_grad_(true));
  }

  at::Tensor values(const Sequence& sequence) const {  // [tokens], entry t after token t
    const at::Tensor hidden = hidden_states(architecture, weights, make_pack({&sequence, 1}));
    return at::linear(hidden, head, bias).squeeze(1);
  }

  void update(AdamW& optimizer, const Sequences& sequences, const Valuations& valuations, double limit) {
    for (const at::Tensor& parameter : parameters) parameter.mutable_grad() = at::zeros_like(parameter);
    at::Tensor loss = at::zeros({});
    double tokens = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const at::Tensor value = values(sequences[i]);
      for (std::size_t t = 1; t < sequences[i].mask.size(); ++t) {
        if (!sequences[i].mask[t]) continue;
        loss = loss + 0.5 * (value[static_cast<std::int64_t>(t) - 1] - valuations[i].targets[t]).square();
        ++tokens;
      }
    }
    (loss / tokens).backward();
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
    optimizer.step(parameters, gradients, clip_factor(global_norm(gradients), limit), parameters);
  }

  Architecture architecture;
  Weights weights;
  at::Tensor head, bias;
  std::vector<at::Tensor> parameters;
};

TEST_CASE("K updates a step are K hand-made updates with the targets of arrival") {
  const Model model = small_model();
  for (const auto& [updates, freeze] : {std::pair{1, "attention"}, {2, "attention"}, {2, "none"}}) {
    CAPTURE(updates);
    CAPTURE(freeze);
    ValueSettings settings = critic_in_float32(updates);
    settings.freeze = freeze;
    ValueLearner learner(model, settings, Baseline{.lambda_value = 0.5});  // targets depend on the values of arrival
    HandMadeCritic right(model, std::string(freeze) == "attention");
    AdamW optimizer({.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95}, right.parameters);
    for (std::uint32_t seed = 40; seed < 43; ++seed) {
      const Sequences sequences = trajectories(4, seed);
      const Valuations valuations = feed(learner, sequences, 3);
      learner.step();
      for (int k = 0; k < updates; ++k) right.update(optimizer, sequences, valuations, settings.max_gradient_norm);
    }
    const Sequences sequences = trajectories(2, 44);
    const Valuations valuations = feed(learner, sequences, 2);
    double largest = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const auto values = flat({right.values(sequences[i])});
      for (std::size_t t = 1; t < values.size(); ++t) {
        if (!sequences[i].mask[t]) continue;
        CHECK(std::abs(valuations[i].values[t] - values[t - 1]) < 1e-4f);
        largest = std::max(largest, std::abs(double{values[t - 1]}));
      }
    }
    CHECK(largest > 0.1);
  }
}

TEST_CASE("explained variance: values before the update, tokens of the last trajectories") {
  ValueLearner learner(small_model(), critic_in_float32(), Baseline{});
  warmed_up(learner);
  std::vector<double> values, targets;
  double last = 0;
  for (std::uint32_t seed = 50; seed < 66; ++seed) {  // 16 batches of 8: what came before has left the window
    const Sequences sequences = trajectories(8, seed);
    const Valuations valuations = feed(learner, sequences, 4);
    for (const float v : at_actions(sequences, valuations, &Valuation::values)) values.push_back(v);
    for (const float r : at_actions(sequences, valuations, &Valuation::targets)) targets.push_back(r);
    last = learner.step().explained_variance;
  }
  CHECK(last == doctest::Approx(explained_variance(values, targets)).epsilon(1e-4));
}

TEST_CASE("explained variance is NaN while all returns are equal") {
  ValueLearner learner(small_model(), critic_in_float32(), Baseline{});
  Sequence sequence{.tokens = {65, 66}, .mask = {0, 1}, .behaviour = {0, -5}, .rewards = {0, 1}};
  feed(learner, {sequence, sequence}, 2);
  CHECK(std::isnan(learner.step().explained_variance));
}

TEST_CASE("the critic learns: its loss on the same trajectories falls") {
  ValueLearner learner(small_model(), critic_in_float32(), Baseline{});
  const Sequences sequences = trajectories(8, 33);
  feed(learner, sequences, 4);
  const double first = learner.step().loss;
  ValueStep last;
  for (int i = 0; i < 30; ++i) {
    feed(learner, sequences, 4);
    last = learner.step();
  }
  CHECK(last.loss < 0.2 * first);
  CHECK(last.explained_variance > 0);
}

TEST_CASE("the running RMS is fixed before a batch starts") {
  ValueLearner learner(small_model(), critic_in_float32(), Baseline{});
  Sequence sequence{.tokens = {65, 66}, .mask = {0, 1}, .behaviour = {0, -5}, .rewards = {0, 4}};
  CHECK(learner.arrive({&sequence, 1}).front().advantages[1] == 4);
  CHECK(learner.arrive({&sequence, 1}).front().advantages[1] == 4);
  CHECK(learner.step().advantage_rms == doctest::Approx(4));
  const Valuation valuation = learner.arrive({&sequence, 1}).front();
  CHECK(valuation.advantages[1] == doctest::Approx((4 - valuation.values[1]) / 4).epsilon(1e-5));
}

TEST_CASE("bfloat16 arithmetic gives about float32's values") {
  const Model model = small_model();
  ValueSettings settings = critic_in_float32();
  settings.dtype = "bfloat16";
  ValueLearner right(model, critic_in_float32(), Baseline{}), learner(model, settings, Baseline{});
  warmed_up(right);
  warmed_up(learner);
  const Sequences sequences = trajectories(4, 38);
  const auto values = at_actions(sequences, feed(learner, sequences, 4), &Valuation::values);
  CHECK(relative_distance(values, at_actions(sequences, feed(right, sequences, 4), &Valuation::values)) < 0.1);
}

}  // namespace
}  // namespace millrace
