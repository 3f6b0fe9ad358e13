// Every role computes on a device of its own: nothing may assume that another's tensors, or the host, lie there, too.
#include "tests/models/decoder_fixture.hpp"
#include "tests/models/strict_device.hpp"

#include "models/operations.hpp"
#include "models/optimizer.hpp"
#include "models/tensor_kernels.hpp"
#include "models/token_scorer.hpp"

using namespace millrace;
using namespace millrace::testing;

namespace {

PolicySettings policy_on(const std::string& device) {
  PolicySettings settings = policy_in_float32();
  settings.device = device;
  return settings;
}

ValueSettings critic_on(const std::string& device) {
  ValueSettings settings = critic_in_float32();
  settings.device = device;
  return settings;
}

double distance_between(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kFloat) - b.to(at::kFloat)).abs().max().item<double>();
}

}  // namespace

TEST_CASE("the device of these tests is strict") {
  const at::Device device(strict_device());
  const at::Tensor there = at::arange(6, at::kFloat).to(device), here = at::ones({6});
  CHECK((there * 2 + there).sum().item<float>() == 45);
  CHECK(there.view({2, 3}).t().contiguous().cpu()[1][1].item<float>() == 4);
  CHECK_THROWS_WITH(there + here, doctest::Contains("device"));
  CHECK_THROWS(at::cat({there, here}));
}

TEST_CASE("the kernels of other devices compute what the CPU's loops do, forwards and backwards") {
  at::manual_seed(3);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const double near = dtype == at::kFloat ? 1e-5 : 0.05;
    const at::Tensor x = at::randn({5, 16}), weight = at::randn({16}).to(dtype), dy = at::randn({5, 16}).to(dtype);
    const at::Tensor gate = at::randn({5, 16}).to(dtype), up = at::randn({5, 16}).to(dtype);
    const at::Tensor heads = at::randn({5, 2, 8}).to(dtype);
    const Rotary rotary{at::randn({5, 4}), at::randn({5, 4})};
    const auto leaf = [](const at::Tensor& tensor) { return tensor.clone().requires_grad_(true); };
    const auto gradients = [](const at::Tensor& y, const at::Tensor& of_y, std::vector<at::Tensor> leaves) {
      y.backward(of_y);
      for (at::Tensor& each : leaves) each = each.grad();
      return leaves;
    };
    {
      const auto [y, scale] = tensor_kernels::rms_norm(x, weight, 1e-5);
      CHECK(distance_between(y, rms_norm(x, weight, 1e-5)) < near);
      const at::Tensor x_leaf = leaf(x), weight_leaf = leaf(weight);
      weight_leaf.mutable_grad() = at::zeros({16});
      const auto right = gradients(rms_norm(x_leaf, weight_leaf, 1e-5), dy, {x_leaf, weight_leaf});
      CHECK(distance_between(tensor_kernels::rms_norm_backward(x, weight, scale, dy), right[0]) < near);
      CHECK(distance_between(tensor_kernels::rms_norm_weight_gradient(x, scale, dy), right[1]) < near);
    }
    {
      CHECK(distance_between(tensor_kernels::gated(gate, up), gated(gate, up)) < near);
      const at::Tensor gate_leaf = leaf(gate), up_leaf = leaf(up);
      const auto right = gradients(gated(gate_leaf, up_leaf), dy, {gate_leaf, up_leaf});
      const auto [of_gate, of_up] = tensor_kernels::gated_backward(gate, up, dy);
      CHECK(distance_between(of_gate, right[0]) < near);
      CHECK(distance_between(of_up, right[1]) < near);
    }
    CHECK(distance_between(tensor_kernels::rotate(heads, rotary.cos, rotary.sin, 1), rotate(heads, rotary)) < near);
    const at::Tensor back = tensor_kernels::rotate(heads, rotary.cos, rotary.sin, -1), heads_leaf = leaf(heads);
    CHECK(distance_between(back, gradients(rotate(heads_leaf, rotary), heads, {heads_leaf})[0]) < near);
    CHECK(distance_between(tensor_kernels::add(x, up), residual(x, up)) < near);
  }
}

TEST_CASE("AdamW is the same on another device") {
  at::manual_seed(4);
  const at::Device device(strict_device());
  const AdamWSettings settings{.lr = 0.1, .weight_decay = 0.05};
  at::Tensor here = at::randn({7, 3}), there = here.to(device);
  AdamW right(settings, {here}), other(settings, {there});
  for (int i = 0; i < 4; ++i) {
    const at::Tensor gradient = at::randn({7, 3}), same = gradient.to(device);
    const at::Tensor next = at::empty_like(there);
    CHECK(global_norm({same}) == doctest::Approx(global_norm({gradient})));
    right.step({here}, {gradient}, 0.3, {here});
    other.step({there}, {same}, 0.3, {next});  // beside the old ones
    there = next;
    CHECK(distance_between(there.cpu(), here) < 1e-6);
    CHECK(same.abs().sum().item<float>() == 0);
  }
}

TEST_CASE("a policy learner on another device takes the same steps") {
  Recipe with_kl = band;
  with_kl.loss.kl_weight = 0.1;
  with_kl.loss.entropy_weight = 0.01;
  for (const bool tied : {true, false}) {
    for (const Recipe& recipe : {band, with_kl}) {
      const Model model = small_model(tied);
      PolicyLearner here(model, policy_on("cpu"), recipe), there(model, policy_on(strict_device()), recipe);
      for (Version version = 1; version <= 3; ++version) {
        const Batch batch = random_batch(6, 6, static_cast<std::uint32_t>(version));
        const PolicySums sums = feed(here, batch, 3), same = feed(there, batch, 3);
        CHECK(same.loss == doctest::Approx(sums.loss).epsilon(1e-4));
        CHECK(same.kl == doctest::Approx(sums.kl).epsilon(1e-4));
        CHECK(relative_distance(there.gradient(), here.gradient()) < 1e-4);
        const PolicyStep right = here.step(version), step = there.step(version);
        REQUIRE(step.weights);
        CHECK(step.gradient_norm == doctest::Approx(right.gradient_norm).epsilon(1e-4));
        CHECK(step.weights->weights.embedding.device() == at::Device(strict_device()));
      }
      const auto sequences = random_batch(3, 6, 9).sequences;
      const auto right = here.log_probs(sequences), logp = there.log_probs(sequences);
      for (std::size_t i = 0; i < right.size(); ++i) CHECK(distance(logp[i], right[i]) < 1e-3);
    }
  }
}

TEST_CASE("a value learner on another device takes the same steps") {
  const Model model = small_model();
  ValueLearner here(model, critic_on("cpu"), Baseline{}), there(model, critic_on(strict_device()), Baseline{});
  for (std::uint32_t i = 0; i < 3; ++i) {
    const Sequences sequences = trajectories(5, i);
    const Valuations right = feed(here, sequences, 2), valued = feed(there, sequences, 2);
    for (const auto field : {&Valuation::values, &Valuation::advantages, &Valuation::targets}) {
      CHECK(distance(at_actions(sequences, valued, field), at_actions(sequences, right, field)) < 1e-3);
    }
    const ValueStep step = there.step(), right_step = here.step();
    CHECK_FALSE(step.skipped);
    CHECK(step.loss == doctest::Approx(right_step.loss).epsilon(1e-3));
    CHECK(step.gradient_norm == doctest::Approx(right_step.gradient_norm).epsilon(1e-3));
  }
  CHECK(there.explained_variance_of(trajectories(4, 8)) ==
        doctest::Approx(here.explained_variance_of(trajectories(4, 8))).epsilon(1e-3));
}

TEST_CASE("a learner's image is the host's, whatever device it comes from and goes to") {
  const Model model = small_model();
  PolicyLearner there(model, policy_on(strict_device()), band), here(model, policy_on("cpu"), band);
  ValueLearner critic(model, critic_on(strict_device()), Baseline{}), other(model, critic_on("cpu"), Baseline{});
  feed(there, random_batch(4, 6, 1), 2);
  there.step(1);
  feed(critic, trajectories(4, 1), 2);
  critic.step();
  REQUIRE(here.restore(there.image()->tensors(), 1));
  REQUIRE(other.restore(critic.image()->tensors()));
  REQUIRE(there.restore(here.image()->tensors(), 1));
  REQUIRE(critic.restore(other.image()->tensors()));
  const Batch batch = random_batch(4, 6, 2);
  feed(there, batch, 2);
  feed(here, batch, 2);
  CHECK(relative_distance(there.gradient(), here.gradient()) < 1e-4);
  feed(critic, batch.sequences, 2);
  feed(other, batch.sequences, 2);
  CHECK(relative_distance(critic.gradient(), other.gradient()) < 1e-3);
}

TEST_CASE("a generator takes weights from a learner on another device, and the other way round") {
  const Model model = small_model();
  const Batch batch = random_batch(4, 6, 1);
  for (const bool recompute : {false, true}) {
    Turns turns[2];
    for (const int i : {0, 1}) {
      const std::string decoding = i ? strict_device() : "cpu", learning = i ? "cpu" : strict_device();
      PolicyLearner learner(model, policy_on(learning), band);
      feed(learner, batch, 2);
      const SnapshotPtr next = learner.step(1).weights;
      prepare(*next, "float32", decoding);
      Decoder decoder(model, {.max_context = 80, .recompute_on_swap = recompute, .device = decoding});
      const Tokens question(40, 65);
      for (TurnId id = 1; id <= 3; ++id) {
        Tokens prompt = question;
        prompt.push_back(static_cast<TokenId>(id));
        REQUIRE(decoder.start(id, prompt, {.max_tokens = 20, .seed = id}));
      }
      for (int step = 0; step < 8; ++step) decoder.step();
      REQUIRE(decoder.swap(next));
      turns[i] = run(decoder);
    }
    for (const auto& [id, turn] : turns[0]) {
      CHECK(turns[1].at(id).tokens == turn.tokens);
      CHECK(turns[1].at(id).versions == turn.versions);
      CHECK(distance(turns[1].at(id).logp, turn.logp) < 1e-3);
    }
  }
}

TEST_CASE("a scorer reads weights where they lie, and a checksum is of the bits, not of the place") {
  const Model model = small_model();
  const SnapshotPtr there = on_device(model.weights, at::Device(strict_device()));
  CHECK(on_device(there, there->weights.embedding.device()) == there);
  CHECK(checksum_of(*there) == checksum_of(*model.weights));
  CHECK(there->checked());
  const Sequence sequence = random_batch(1, 6, 5).sequences.front();
  CHECK(distance(TokenScorer(there).log_probs(sequence), TokenScorer(model.weights).log_probs(sequence)) < 1e-5);
}

TEST_CASE("a device that is not there is refused by the name of its setting") {
  Settings settings;
  CHECK(check_devices(settings));
  settings.value.device = "cuda:99";
  const auto refused = check_devices(settings);
  REQUIRE_FALSE(refused);
  CHECK_MESSAGE(refused.error().message.starts_with("value.device \"cuda:99\": "), refused.error().message);
}
