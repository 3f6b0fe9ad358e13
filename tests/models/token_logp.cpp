#include <stdexcept>
#include <utility>

#include "tests/torch_doctest.hpp"

#include "models/compute.hpp"
#include "models/leaves.hpp"
#include "models/operations.hpp"
#include "models/token_logp.hpp"

namespace millrace {
namespace {

TEST_CASE("log-probs, entropy and the closed-form gradient are autograd's") {
  at::manual_seed(5);
  const at::Tensor logits = at::randn({6, 11}) * 3;
  const at::Tensor tokens = at::tensor({0, 10, 3, 3, 7, 1}, at::kLong);
  const at::Tensor temperature = at::tensor({1.0f, 0.5f, 2.0f, 1.0f, 0.7f, 1.3f});
  const at::Tensor downstream = at::randn({6});

  const at::Tensor leaf = logits.clone().requires_grad_(true);
  const at::Tensor all = at::log_softmax(leaf / temperature.unsqueeze(1), 1);
  const at::Tensor logp = all.gather(1, tokens.unsqueeze(1)).squeeze(1);
  (logp * downstream).sum().backward();

  TokenLogp distribution(logits.clone(), tokens, temperature);
  CHECK(at::allclose(distribution.logp(), logp.detach(), 1e-6, 1e-6));
  CHECK(at::allclose(distribution.entropy(), -(all.exp() * all).sum(1).detach(), 1e-5, 1e-6));
  CHECK(at::allclose(std::move(distribution).logits_gradient(downstream), leaf.grad(), 1e-5, 1e-6));
}

TEST_CASE("the gradient of the entropy is autograd's, also where a probability is zero") {
  at::manual_seed(6);
  at::Tensor logits = at::randn({4, 9}) * 3;
  logits[0][2] = -200;
  const at::Tensor tokens = at::tensor({0, 8, 3, 3}, at::kLong);
  const at::Tensor temperature = at::tensor({1.0f, 0.5f, 2.0f, 1.0f});
  const at::Tensor of_logp = at::randn({4}), of_entropy = at::randn({4});

  const at::Tensor leaf = logits.clone().requires_grad_(true);
  const at::Tensor all = at::log_softmax(leaf / temperature.unsqueeze(1), 1);
  const at::Tensor entropy = -(all.exp() * all).sum(1);
  (all.gather(1, tokens.unsqueeze(1)).squeeze(1) * of_logp + entropy * of_entropy).sum().backward();

  TokenLogp distribution(logits.clone(), tokens, temperature);
  CHECK(at::allclose(std::move(distribution).logits_gradient(of_logp, of_entropy), leaf.grad(), 1e-4, 1e-5));
}

TEST_CASE("a uniform distribution has entropy log n; temperature does not change it") {
  TokenLogp distribution(at::full({1, 8}, 2.0f), at::zeros({1}, at::kLong), at::full({1}, 0.25f));
  CHECK(distribution.entropy().item<double>() == doctest::Approx(2.0794415).epsilon(1e-6));
  CHECK(distribution.logp().item<double>() == doctest::Approx(-2.0794415).epsilon(1e-6));
}

TEST_CASE("bfloat16 leaves add up in float32") {
  Leaves leaves;
  const at::Tensor leaf = leaves.add(at::ones({1, 1}), at::kBFloat16);
  leaves.add_into({at::empty({1, 1})});
  const at::Tensor one = at::ones({1, 1}, at::kBFloat16);
  for (int pass = 0; pass < 1000; ++pass) project(one, leaf).sum().backward();
  CHECK(leaves.flat_gradient().front() == 1000.0f);  // in bfloat16 it would have stopped at 256
}

TEST_CASE("float32 leaves share the master's memory and follow it elsewhere, gradients stay") {
  const at::Tensor master = at::ones({2}), next = at::full({2}, 3.0f);
  Leaves leaves;
  const at::Tensor leaf = leaves.add(master, at::kFloat);
  leaves.add_into({at::full({2}, 5.0f)});
  CHECK(leaf.const_data_ptr<float>() == master.const_data_ptr<float>());
  leaf.sum().backward();
  leaves.follow({next});
  CHECK(leaf.const_data_ptr<float>() == next.const_data_ptr<float>());
  leaf.square().sum().backward();
  CHECK(leaves.flat_gradient() == std::vector<float>{7.0f, 7.0f});  // 1 + 2 * 3
  CHECK_FALSE(master.requires_grad());
  leaves.drop_gradients();
  CHECK(leaves.flat_gradient() == std::vector<float>{0.0f, 0.0f});
}

TEST_CASE("names of dtypes") {
  CHECK((compute_of("float32").dtype == at::kFloat));
  CHECK((compute_of("bfloat16").dtype == at::kBFloat16));
  CHECK_NOTHROW(compute_of("auto"));
  CHECK_THROWS_AS(compute_of("float16"), std::invalid_argument);
}

}  // namespace
}  // namespace millrace
