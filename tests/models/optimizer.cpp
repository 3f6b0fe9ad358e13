#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/torch_doctest.hpp"

#include "models/optimizer.hpp"

namespace millrace {
namespace {

TEST_CASE("B25: three equal gradients, then a small one") {
  const at::Tensor p = at::ones({1});
  AdamW optimizer({.lr = 0.1, .beta1 = 0.9, .beta2 = 0.999}, {p});
  for (const float gradient : {1.0f, 1.0f, 1.0f, 0.1f}) optimizer.step({p}, {at::full({1}, gradient)}, 1.0, {p});
  CHECK(p.item<double>() == doctest::Approx(0.614870).epsilon(1e-6));
  CHECK(optimizer.steps() == 4);
}

TEST_CASE("AdamW follows its formula over several steps with changing gradients") {
  constexpr double lr = 0.01, beta1 = 0.9, beta2 = 0.95, decay = 0.1, epsilon = 1e-8, scale = 0.25;
  at::manual_seed(3);
  // Large enough for several threads, and no multiple of a vector's length.
  const at::Tensor p = at::randn({271, 523});
  at::Tensor reference = p.to(at::kDouble);
  at::Tensor mean = at::zeros_like(reference), variance = at::zeros_like(reference);
  AdamW optimizer({lr, beta1, beta2, decay, epsilon}, {p});
  for (int t = 1; t <= 5; ++t) {
    const at::Tensor gradient = at::randn(p.sizes()) * t;
    const at::Tensor g = gradient.to(at::kDouble) * scale;
    mean = beta1 * mean + (1 - beta1) * g;
    variance = beta2 * variance + (1 - beta2) * g * g;
    const at::Tensor mean_hat = mean / (1 - std::pow(beta1, t)), variance_hat = variance / (1 - std::pow(beta2, t));
    reference = reference - lr * decay * reference - lr * mean_hat / (variance_hat.sqrt() + epsilon);
    optimizer.step({p}, {gradient}, scale, {p});
    CHECK((p.to(at::kDouble) - reference).abs().max().item<double>() < 2e-6);
    CHECK(gradient.abs().max().item<float>() == 0);
  }
}

TEST_CASE("new weights beside the old ones leave those as they were, and are the same as in place or as the gradient") {
  at::manual_seed(4);
  const at::Tensor start = at::randn({7, 5}), old = start.clone(), next = at::empty({7, 5}), in_place = start.clone();
  const at::Tensor gradient = at::randn({7, 5}), becomes_weights = gradient.clone();
  AdamW beside({.lr = 0.1}, {old}), over({.lr = 0.1}, {in_place}), of_gradient({.lr = 0.1}, {old});
  beside.step({old}, {gradient.clone()}, 1.0, {next});
  over.step({in_place}, {gradient.clone()}, 1.0, {in_place});
  of_gradient.step({old}, {becomes_weights}, 1.0, {becomes_weights});
  CHECK(at::equal(old, start));
  CHECK(at::equal(next, in_place));
  CHECK(at::equal(next, becomes_weights));
  CHECK_FALSE(at::equal(next, start));
}

TEST_CASE("a tensor that is not contiguous is refused") {
  const at::Tensor p = at::ones({3, 2}), crossed = at::ones({2, 3}).t();
  AdamW optimizer({}, {p});
  CHECK_THROWS_AS(optimizer.step({p}, {crossed}, 1.0, {p}), std::invalid_argument);
}

TEST_CASE("the global norm spans all gradients, keeps its digits, and shows what is not finite") {
  CHECK(global_norm({at::full({1}, 3.0f), at::full({1, 1}, 4.0f)}) == doctest::Approx(5));
  CHECK(global_norm({at::full({4096, 1024}, 0.1f)}) == doctest::Approx(0.1 * 2048).epsilon(1e-6));
  CHECK(std::isnan(global_norm({at::ones({2}), at::full({1}, std::nanf(""))})));
  CHECK(std::isinf(global_norm({at::full({2, 2}, std::numeric_limits<float>::infinity())})));
}

TEST_CASE("clipping shortens long gradients only") {
  CHECK(clip_factor(0.5, 1.0) == 1.0);
  CHECK(clip_factor(4.0, 1.0) == doctest::Approx(0.25));
  CHECK(clip_factor(0.0, 1.0) == 1.0);
}

}  // namespace
}  // namespace millrace
