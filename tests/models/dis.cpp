#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "tests/torch_doctest.hpp"

#include <nlohmann/json.hpp>

#include "models/objectives/dis.hpp"

namespace millrace {
namespace {

const TrustRegion math{.low = 0.3, .high = 5.0};
const TrustRegion coding{.low = 0.8, .high = 3.0};

nlohmann::json golden() {
  std::ifstream file(MILLRACE_TEST_DATA "/objectives.json");
  return nlohmann::json::parse(file);
}

// The entries of a [sequences, time] table where the mask is 1.
at::Tensor actions(const nlohmann::json& all, const nlohmann::json& table, at::ScalarType dtype = at::kDouble) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < table.size(); ++i) {
    for (std::size_t t = 0; t < table[i].size(); ++t) {
      if (all["mask"][i][t] == 1.0) numbers.push_back(table[i][t]);
    }
  }
  return at::tensor(numbers, at::kDouble).to(dtype);
}

void check_golden(const std::string& name, const TrustRegion& region, at::ScalarType dtype, double tolerance) {
  const auto all = golden();
  const at::Tensor logp = actions(all, all["logp"], dtype).requires_grad_(true);
  const at::Tensor behaviour = actions(all, all["behaviour"], dtype);
  const at::Tensor advantage = actions(all, all["advantage"], dtype);
  const auto count = static_cast<double>(logp.numel());
  REQUIRE(count == 19);

  const at::Tensor loss = dis_loss(logp, behaviour, advantage, region);
  loss.backward();
  CHECK(loss.item<double>() / count ==
        doctest::Approx(all["objectives"][name]["loss"].get<double>()).epsilon(tolerance));
  const at::Tensor expected_gradient = actions(all, all["objectives"][name]["grad"]);
  CHECK((logp.grad().to(at::kDouble) / count - expected_gradient).abs().max().item<double>() < tolerance);
  const at::Tensor closed_form = dis_gradient(logp.detach(), behaviour, advantage, region);
  CHECK(at::equal(closed_form, logp.grad()));
}

TEST_CASE("loss and gradient are the reference's, for both of the paper's bands") {
  check_golden("dis_math_0.3_5.0", math, at::kDouble, 1e-9);
  check_golden("dis_coding_0.8_3.0", coding, at::kDouble, 1e-9);
  check_golden("dis_math_0.3_5.0", math, at::kFloat, 1e-5);
  check_golden("dis_coding_0.8_3.0", coding, at::kFloat, 1e-5);
}

TEST_CASE("masked shares and effective sample size are the reference's") {
  const auto all = golden();
  const at::Tensor logp = actions(all, all["logp"]), behaviour = actions(all, all["behaviour"]);
  const at::Tensor advantage = actions(all, all["advantage"]);
  for (const auto& [name, region] : {std::pair{"0.3_5.0", math}, {"0.8_3.0", coding}}) {
    const PolicySums sums = dis_sums(logp, behaviour, advantage, at::ones_like(logp), region);
    CHECK(sums.tokens == 19);
    CHECK(sums.masked_low / sums.tokens == doctest::Approx(all["masked_share"][name][0].get<double>()));
    CHECK(sums.masked_high / sums.tokens == doctest::Approx(all["masked_share"][name][1].get<double>()));
    CHECK(sums.effective_sample_size_ratio() == doctest::Approx(all["ess_ratio"].get<double>()).epsilon(1e-9));
    CHECK(sums.entropy == doctest::Approx(19));
  }
  const PolicySums sums = dis_sums(logp, behaviour, advantage, at::ones_like(logp), math);
  CHECK(sums.kept * sums.kept / (sums.tokens * sums.kept_squared) ==
        doctest::Approx(all["ess_ratio_masked_math"].get<double>()).epsilon(1e-9));
}

TEST_CASE("the band is open: a ratio on its edge leaves the gradient") {
  const at::Tensor behaviour = at::zeros({4}, at::kDouble);
  const at::Tensor logp = at::tensor({0.5, 0.5 + 1e-9, 2.0, 2.0 - 1e-9}, at::kDouble).log();
  const at::Tensor weight = dis_weight(logp, behaviour, {.low = 0.5, .high = 1.0});
  CHECK(weight[0].item<double>() == 0);
  CHECK(weight[1].item<double>() == doctest::Approx(0.5));
  CHECK(weight[2].item<double>() == 0);
  CHECK(weight[3].item<double>() == doctest::Approx(2.0));
}

TEST_CASE("a ratio that overflows float32 is outside the band, not a NaN") {
  const at::Tensor logp = at::tensor({-1.0f, -1.0f}), behaviour = at::tensor({-200.0f, -1.0f});
  const at::Tensor advantage = at::ones({2});
  CHECK(dis_loss(logp, behaviour, advantage, math).item<float>() == doctest::Approx(1.0));
  CHECK(dis_sums(logp, behaviour, advantage, at::zeros({2}), math).masked_high == 1);
}

TEST_CASE("the KL estimate is zero on policy and its hand-computed value off it") {
  const at::Tensor advantage = at::zeros({2}, at::kDouble);
  const at::Tensor logp = at::tensor({-1.0, -2.0}, at::kDouble);
  CHECK(dis_sums(logp, logp, advantage, advantage, math).kl == 0);
  // r = e^0.5: e^0.5 - 1 - 0.5 = 0.148721
  CHECK(dis_sums(logp, logp - 0.5, advantage, advantage, math).kl == doctest::Approx(2 * 0.1487212707).epsilon(1e-9));
}

}  // namespace
}  // namespace millrace
