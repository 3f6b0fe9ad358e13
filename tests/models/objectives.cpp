// Every recipe's loss and advantages against golden numbers that PyTorch's autograd made (float64).
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "tests/torch_doctest.hpp"

#include <nlohmann/json.hpp>

#include "models/objectives/group_advantage.hpp"
#include "models/objectives/objective.hpp"
#include "models/objectives/running_mean.hpp"

namespace millrace {
namespace {

const nlohmann::json& golden() {
  static const nlohmann::json document = [] {
    std::ifstream file(MILLRACE_TEST_DATA "/objectives.json");
    return nlohmann::json::parse(file);
  }();
  return document;
}

// Entry (i, t) where the mask is 1.
template <class Entry>
at::Tensor actions(Entry entry, at::ScalarType dtype) {
  std::vector<double> numbers;
  const auto& mask = golden()["mask"];
  for (std::size_t i = 0; i < mask.size(); ++i) {
    for (std::size_t t = 0; t < mask[i].size(); ++t) {
      if (mask[i][t] == 1.0) numbers.push_back(entry(i, t));
    }
  }
  return at::tensor(numbers, at::kDouble).to(dtype);
}

at::Tensor actions(const nlohmann::json& table, at::ScalarType dtype) {
  return actions([&](auto i, auto t) { return table[i][t].template get<double>(); }, dtype);
}

// The golden tokens; one advantage a token, or one a sequence.
ActionTokens tokens_of(at::ScalarType dtype, bool sequence_advantage) {
  const auto& all = golden();
  std::vector<double> lengths, log_ratios;
  for (std::size_t i = 0; i < all["mask"].size(); ++i) {
    double length = 0, sum = 0;
    for (std::size_t t = 0; t < all["mask"][i].size(); ++t) {
      if (all["mask"][i][t] != 1.0) continue;
      ++length;
      sum += all["logp"][i][t].get<double>() - all["behaviour"][i][t].get<double>();
    }
    lengths.push_back(length);
    log_ratios.push_back(sum / length);
  }
  return {.logp = actions(all["logp"], dtype),
          .behaviour = actions(all["behaviour"], dtype),
          .advantage =
              sequence_advantage
                  ? actions([&](auto i, auto) { return all["sequence_advantage"][i].template get<double>(); }, dtype)
                  : actions(all["advantage"], dtype),
          .length = actions([&](auto i, auto) { return lengths[i]; }, dtype),
          .rewarded = actions([](auto i, auto) { return i == 1 ? 1.0 : 0.0; }, dtype),
          .sequence_log_ratio = actions([&](auto i, auto) { return log_ratios[i]; }, dtype),
          .proximal = actions(all["proximal"], dtype),
          .reference = actions(all["behaviour"], dtype)};
}

Recipe recipe_of(const std::string& name) {
  for (const Recipe& recipe : recipes) {
    if (recipe.name == name) return recipe;
  }
  FAIL("no recipe " << name);
  return {};
}

void check(const char* recipe_name, const char* golden_name, TrustRegion region, bool sequence_advantage = false) {
  CAPTURE(golden_name);
  Recipe recipe = recipe_of(recipe_name);
  recipe.trust_region = region;
  recipe.loss.nll_weight = 0;  // VAPO's; the golden clip has none
  const auto& right = golden()["objectives"][golden_name];
  for (const auto& [dtype, tolerance] : {std::pair{at::kDouble, 1e-9}, {at::kFloat, 1e-5}}) {
    const ActionTokens tokens = tokens_of(dtype, sequence_advantage);
    const TokenLoss loss = token_loss(tokens, recipe);
    const at::Tensor shares = shares_of(tokens, recipe);
    const double divisor = shares.sum().item<double>();
    CHECK(std::abs((shares * loss.loss).sum().item<double>() / divisor - right["loss"].get<double>()) < tolerance);
    const at::Tensor gradient = (shares * loss.gradient).to(at::kDouble) / divisor;
    CHECK((gradient - actions(right["grad"], at::kDouble)).abs().max().item<double>() < tolerance);
    const at::Tensor of_weight = -(shares * loss.weight * tokens.advantage).to(at::kDouble) / divisor;
    CHECK((gradient - of_weight).abs().max().item<double>() < tolerance);
  }
}

PolicySums sums_of(const Recipe& recipe, const ActionTokens& tokens) {
  return policy_sums(tokens, token_loss(tokens, recipe), shares_of(tokens, recipe), at::ones_like(tokens.logp));
}

TEST_CASE("losses and gradients of all recipes are the reference's") {
  for (const char* name : {"sao", "grpo_dis", "running_mean"}) {
    check(name, "dis_math_0.3_5.0", {.low = 0.3, .high = 5.0});
    check(name, "dis_coding_0.8_3.0", {.low = 0.8, .high = 3.0});
  }
  check("vapo", "ppo_clip_0.2_0.2", {.low = 0.2, .high = 0.2});
  check("vapo", "dapo_0.2_0.28", {.low = 0.2, .high = 0.28});
  check("dapo", "dapo_0.2_0.28", {.low = 0.2, .high = 0.28});
  check("grpo", "grpo_0.2_0.2", {.low = 0.2, .high = 0.2}, true);
  check("gspo", "gspo_3e-4_4e-4", {.low = 3e-4, .high = 4e-4}, true);
  check("gspo", "gspo_0.5_0.5", {.low = 0.5, .high = 0.5}, true);
  check("decoupled_ppo", "decoupled_ppo_0.2_0.2", {.low = 0.2, .high = 0.2});
}

TEST_CASE("losses are sums of tokens: any split, in any order, gives the batch's") {
  for (const Recipe& recipe : recipes) {
    CAPTURE(recipe.name);
    const ActionTokens all = tokens_of(at::kDouble, true);
    const PolicySums right = sums_of(recipe, all);
    PolicySums sums;
    const at::Tensor order = at::randperm(all.logp.numel());
    for (const at::Tensor& part : order.split(5)) {
      const auto pick = [&](const at::Tensor& tensor) { return tensor.index_select(0, part); };
      sums += sums_of(recipe, {.logp = pick(all.logp),
                               .behaviour = pick(all.behaviour),
                               .advantage = pick(all.advantage),
                               .length = pick(all.length),
                               .rewarded = pick(all.rewarded),
                               .sequence_log_ratio = pick(all.sequence_log_ratio),
                               .proximal = pick(all.proximal),
                               .reference = pick(all.reference)});
    }
    CHECK(sums.loss / sums.shares == doctest::Approx(right.loss / right.shares).epsilon(1e-12));
    CHECK(sums.masked_low == right.masked_low);
    CHECK(sums.kl == doctest::Approx(right.kl).epsilon(1e-12));
    CHECK(sums.ratios.quantile(0.5) == right.ratios.quantile(0.5));
    CHECK(right.shares == doctest::Approx(recipe.loss.mean_over == "tokens" ? 19 : 3));
  }
}

TEST_CASE("VAPO adds the likelihood of what was rewarded, the KL to the start is its estimate; both by hand") {
  Recipe recipe = recipe_of("vapo");
  const ActionTokens tokens = tokens_of(at::kDouble, false);
  const TokenLoss with = token_loss(tokens, recipe);
  recipe.loss.nll_weight = 0;
  const TokenLoss without = token_loss(tokens, recipe);
  CHECK(at::allclose(with.loss - without.loss, -0.1 * tokens.rewarded * tokens.logp));
  CHECK(at::allclose(with.gradient - without.gradient, -0.1 * tokens.rewarded));
  recipe.loss.kl_weight = 0.5;
  const TokenLoss with_kl = token_loss(tokens, recipe);
  const at::Tensor q_over_p = (tokens.reference - tokens.logp).exp();
  CHECK(at::allclose(with_kl.loss - without.loss, 0.5 * (q_over_p - 1 - (tokens.reference - tokens.logp))));
  CHECK(at::allclose(with_kl.gradient - without.gradient, 0.5 * (1 - q_over_p)));
}

TEST_CASE("masked shares and effective sample size are the reference's") {
  const auto& all = golden();
  const ActionTokens tokens = tokens_of(at::kDouble, false);
  Recipe recipe;
  for (const auto& [name, region] : {std::pair{"0.3_5.0", TrustRegion{0.3, 5.0}}, {"0.8_3.0", TrustRegion{0.8, 3.0}}}) {
    recipe.trust_region = region;
    const PolicySums sums = sums_of(recipe, tokens);
    CHECK(sums.tokens == 19);
    CHECK(sums.masked_low / sums.tokens == doctest::Approx(all["masked_share"][name][0].get<double>()));
    CHECK(sums.masked_high / sums.tokens == doctest::Approx(all["masked_share"][name][1].get<double>()));
    CHECK(sums.effective_sample_size_ratio() == doctest::Approx(all["ess_ratio"].get<double>()).epsilon(1e-9));
    CHECK(sums.entropy == doctest::Approx(19));
  }
  recipe.trust_region = {0.3, 5.0};
  const PolicySums sums = sums_of(recipe, tokens);
  CHECK(sums.kept * sums.kept / (sums.tokens * sums.kept_squared) ==
        doctest::Approx(all["ess_ratio_masked_math"].get<double>()).epsilon(1e-9));
}

ActionTokens of(const at::Tensor& logp, const at::Tensor& behaviour, const at::Tensor& advantage) {
  return {.logp = logp,
          .behaviour = behaviour,
          .advantage = advantage,
          .length = at::ones_like(logp),
          .rewarded = at::zeros_like(logp),
          .sequence_log_ratio = logp - behaviour,
          .proximal = logp,
          .reference = logp};
}

TEST_CASE("SAO's band is open: a ratio on its edge leaves the gradient") {
  const at::Tensor behaviour = at::zeros({4}, at::kDouble);
  const at::Tensor logp = at::tensor({0.5, 0.5 + 1e-9, 2.0, 2.0 - 1e-9}, at::kDouble).log();
  const TokenLoss loss = token_loss(of(logp, behaviour, at::ones_like(logp)), {.trust_region = {0.5, 1.0}});
  CHECK(loss.weight[0].item<double>() == 0);
  CHECK(loss.weight[1].item<double>() == doctest::Approx(0.5));
  CHECK(loss.weight[2].item<double>() == 0);
  CHECK(loss.weight[3].item<double>() == doctest::Approx(2.0));
}

TEST_CASE("B15: token-weighted, however the batch is split") {
  // Losses [1, 3] and [2, 2, 2, 2, 2, 8] at ratio 1: -A logp with A = 1.
  const at::Tensor losses = at::tensor({1., 3., 2., 2., 2., 2., 2., 8.}, at::kDouble);
  const ActionTokens all = of(-losses, -losses, at::ones_like(losses));
  for (const std::int64_t size : {1, 2, 4, 8}) {
    PolicySums sums;
    for (std::int64_t begin = 0; begin < 8; begin += size) {
      const at::Tensor part = -losses.slice(0, begin, begin + size);
      sums += sums_of({}, of(part, part, at::ones_like(part)));
    }
    const at::Tensor nothing = at::zeros({0}, at::kDouble);
    sums += sums_of({}, of(nothing, nothing, nothing));  // an all-masked part changes nothing
    CHECK(sums.loss / sums.shares == doctest::Approx(2.75));
  }
}

TEST_CASE("ratios that overflow float32 stay numbers in every recipe") {
  const at::Tensor logp = at::tensor({-1.0f, -1.0f}), behaviour = at::tensor({-200.0f, -1.0f});
  for (const Recipe& recipe : recipes) {
    CAPTURE(recipe.name);
    for (const float advantage : {1.0f, 0.0f}) {
      const TokenLoss loss = token_loss(of(logp, behaviour, at::full({2}, advantage)), recipe);
      CHECK(loss.loss.isfinite().all().item<bool>());
      CHECK(loss.gradient.isfinite().all().item<bool>());
    }
  }
  CHECK(sums_of({}, of(logp, behaviour, at::ones({2}))).masked_high == 1);
}

TEST_CASE("on policy nothing is masked or clipped, and the KL estimate is zero") {
  const at::Tensor logp = at::tensor({-1.0, -2.0}, at::kDouble);
  for (const Recipe& recipe : recipes) {
    const PolicySums sums = sums_of(recipe, of(logp, logp, at::tensor({1.0, -1.0}, at::kDouble)));
    CHECK(sums.masked_low + sums.masked_high == 0);
    CHECK(sums.kl == 0);
    CHECK(sums.ratios.quantile(0.5) == doctest::Approx(1));
  }
  // r = e^0.5: e^0.5 - 1 - 0.5 = 0.148721
  const PolicySums off = sums_of({}, of(logp, logp - 0.5, logp));
  CHECK(off.kl == doctest::Approx(2 * 0.1487212707).epsilon(1e-9));
  CHECK(off.ratios.quantile(0.99) == doctest::Approx(std::exp(0.5)).epsilon(0.01));
}

TEST_CASE("group advantages are the reference's; B14: no spread, one member, members without a number") {
  for (const auto& group : golden()["group_advantage"]) {
    const std::vector<double> rewards = group["rewards"];
    for (std::size_t i = 0; i < rewards.size(); ++i) {
      CHECK(std::abs(group_advantage(rewards[i], rewards) - group["advantage"][i].get<double>()) < 1e-9);
    }
  }
  CHECK(group_advantage(1, std::vector<double>{1, 1, 1, 1}) == 0);
  CHECK(group_advantage(.7, std::vector<double>{.7}) == 0);
  const std::vector<double> partial{1, std::nan(""), 0, 1};
  CHECK(group_advantage(1, partial) == doctest::Approx(.707105).epsilon(1e-5));
  CHECK(group_advantage(0, partial) == doctest::Approx(-1.414211).epsilon(1e-5));
  CHECK(std::isnan(group_advantage(std::nan(""), partial)));
}

TEST_CASE("the running mean is the reference's") {
  const auto& right = golden()["running_mean_window_3"];
  RunningMean mean(3);
  for (std::size_t i = 0; i < right["rewards"].size(); ++i) {
    CHECK(std::abs(mean.advantage(right["rewards"][i]) - right["advantage"][i].get<double>()) < 1e-12);
  }
}

}  // namespace
}  // namespace millrace
