// Checkpoints of learners: what goes on from an image goes on as if nothing had happened, for changing gradients.
#include "tests/models/learner_fixture.hpp"

#include <chrono>
#include <future>

#include "models/optimizer.hpp"

using namespace millrace;
using namespace millrace::testing;

namespace {

// The image's arrays in memory of their own, as a file would hold them.
struct Copy {
  std::vector<std::vector<std::byte>> memory;
  TensorViews views;

  explicit Copy(const LearnerImage& image) : views(image.tensors()) {
    for (TensorView& view : views) {
      memory.emplace_back(view.bytes.begin(), view.bytes.end());
      view.bytes = memory.back();
    }
  }
};

std::vector<Batch> batches(int count) {
  std::vector<Batch> all;
  for (int i = 0; i < count; ++i) all.push_back(random_batch(6, 6, 100u + static_cast<std::uint32_t>(i)));
  return all;
}

}  // namespace

TEST_CASE("AdamW goes on from moments and step count (B25)") {
  const AdamWSettings settings{.lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
  const at::Tensor p = at::ones({1});
  const auto step = [&](AdamW& optimizer, double gradient) {
    const at::Tensor g = at::full({1}, gradient, at::kFloat);
    optimizer.step({p}, {g}, 1.0, {p});
  };
  AdamW first(settings, {p});
  for (int i = 0; i < 3; ++i) step(first, 1.0);
  AdamW second(settings, {p});
  second.means()[0].copy_(first.means()[0]);
  second.variances()[0].copy_(first.variances()[0]);
  second.set_steps(first.steps());
  step(second, 0.1);
  CHECK(p.item<double>() == doctest::Approx(0.614870).epsilon(1e-5));  // cold: 0.600000, step count lost: 0.553508
}

TEST_CASE("a policy learner goes on from its image bit for bit, moments and step count included (B25)") {
  for (const bool tied : {true, false}) {
    const auto all = batches(6);
    PolicyLearner straight(small_model(tied), policy_in_float32(), band);
    SnapshotPtr end;
    std::optional<Copy> half;
    for (std::size_t i = 0; i < all.size(); ++i) {
      feed(straight, all[i], 3);
      end = straight.step(i + 1).weights;
      if (i == 2) half.emplace(*straight.image());
    }
    PolicyLearner resumed(small_model(tied), policy_in_float32(), band);
    feed(resumed, all[5], 6);  // an open batch that the restore forgets
    const auto restored = resumed.restore(half->views, 7);
    REQUIRE_MESSAGE(restored, restored.error().message);
    CHECK(version_of(**restored) == 7);
    SnapshotPtr other;
    for (std::size_t i = 3; i < all.size(); ++i) {
      feed(resumed, all[i], 3);
      other = resumed.step(i + 5).weights;
    }
    CHECK(flat(*other) == flat(*end));
  }
}

TEST_CASE("a value learner goes on from its image bit for bit, running statistics included (B25)") {
  ValueLearner straight(small_model(), critic_in_float32(), Baseline{});
  std::optional<Copy> half;
  for (std::uint32_t i = 0; i < 3; ++i) {
    feed(straight, trajectories(5, i), 2);
    straight.step();
  }
  half.emplace(*straight.image());
  ValueLearner resumed(small_model(), critic_in_float32(), Baseline{});
  feed(resumed, trajectories(4, 77), 4);
  const auto restored = resumed.restore(half->views);
  REQUIRE_MESSAGE(restored, restored.error().message);
  for (std::uint32_t i = 3; i < 6; ++i) {
    const auto sequences = trajectories(5, i);
    const auto a = feed(straight, sequences, 2), b = feed(resumed, sequences, 2);
    for (const auto field : {&Valuation::values, &Valuation::advantages, &Valuation::targets}) {
      CHECK(at_actions(sequences, a, field) == at_actions(sequences, b, field));
    }
    const ValueStep step_a = straight.step(), step_b = resumed.step();
    CHECK(step_a.explained_variance == step_b.explained_variance);
    CHECK(step_a.advantage_rms == step_b.advantage_rms);
    CHECK(step_a.gradient_norm == step_b.gradient_norm);
  }
}

TEST_CASE("an image shows a critic at the start of the open batch, which is valued again by whoever goes on from it") {
  ValueLearner critic(small_model(), critic_in_float32(), Baseline{});
  feed(critic, trajectories(5, 1), 2);
  critic.step();
  const Copy before(*critic.image());
  feed(critic, trajectories(4, 2), 2);
  CHECK((Copy(*critic.image()).memory == before.memory));
  critic.step();
  CHECK_FALSE((Copy(*critic.image()).memory == before.memory));
}

TEST_CASE("while an image exists gradients are accumulated, and the next step waits") {
  const auto all = batches(2);
  PolicyLearner learner(small_model(), policy_in_float32(), band);
  feed(learner, all[0], 6);
  learner.step(1);
  LearnerImagePtr image = learner.image();
  const Copy before(*image);
  feed(learner, all[1], 6);
  auto step = std::async(std::launch::async, [&] { return learner.step(2).weights; });
  CHECK(step.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  const Copy during(*image);
  CHECK((before.memory == during.memory));
  image.reset();
  CHECK(version_of(*step.get()) == 2);
}

TEST_CASE("an image of another model is refused and changes nothing") {
  PolicyLearner learner(small_model(), policy_in_float32(), band);
  feed(learner, random_batch(4, 6, 1), 4);
  const auto weights = learner.step(1).weights;
  const auto before = flat(*weights);
  Copy copy(*learner.image());
  copy.views[3].shape = {1, 2};
  auto refused = learner.restore(copy.views, 2);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find(copy.views[3].name) == 0);
  copy.views.erase(copy.views.begin() + 3);
  refused = learner.restore(copy.views, 2);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("is missing") != std::string::npos);
  CHECK(flat(*weights) == before);
}
