#include "models/sampler.hpp"

#include <array>
#include <cmath>
#include <set>

#include "tests/torch_doctest.hpp"

namespace millrace {
namespace {

at::Tensor logits_of(const std::vector<float>& values) { return at::tensor(values); }

// The log-prob that is reported when this token is drawn; draws until it is.
float logp_of(TokenId token, const at::Tensor& logits, Sampling sampling) {
  for (std::uint64_t position = 0; position < 100'000; ++position) {
    const Drawn drawn = draw(logits, sampling, position);
    if (drawn.token == token) return drawn.logp;
  }
  FAIL("token " << token << " is never drawn");
  return 0;
}

std::vector<int> counts(const at::Tensor& logits, const Sampling& sampling, int draws) {
  std::vector<int> result(static_cast<std::size_t>(logits.numel()));
  for (int i = 0; i < draws; ++i) {
    ++result[static_cast<std::size_t>(draw(logits, sampling, static_cast<std::uint64_t>(i)).token)];
  }
  return result;
}

TEST_CASE("B01: log-probs are those at the turn's temperature") {
  const at::Tensor logits = logits_of({2, 1, 0, -1});
  const std::array<std::pair<double, double>, 4> right = {
      {{0.5, -2.145078}, {1.0, -1.440190}, {0.6, -1.874727}, {1.3, -1.344479}}};
  for (const auto& [temperature, logp] : right) {
    CAPTURE(temperature);
    CHECK(logp_of(1, logits, {.temperature = temperature}) == doctest::Approx(logp).epsilon(1e-5));
  }
}

TEST_CASE("B02: log-probs are float32") {
  const at::Tensor logits = logits_of({12.30f, 12.10f, 11.95f, 4.00f, -1.50f});
  const std::array right = {-0.925714, -1.125714, -1.275714, -9.225714};
  for (std::size_t token = 0; token < right.size(); ++token) {
    CHECK(logp_of(static_cast<TokenId>(token), logits, {}) == doctest::Approx(right[token]).epsilon(1e-6));
  }
}

TEST_CASE("the most likely tokens are reported best first, whatever is drawn") {
  const at::Tensor logits = logits_of({0, 2, -1, 1});
  for (std::uint64_t position = 0; position < 20; ++position) {
    const Drawn drawn = draw(logits, {.temperature = 0.5, .top_logprobs = 2}, position);
    REQUIRE(drawn.top.size() == 2);
    CHECK(drawn.top[0].first == 1);
    CHECK(drawn.top[0].second == doctest::Approx(-0.145078).epsilon(1e-4));  // logits 0, 4, -2, 2
    CHECK(drawn.top[1].first == 3);
    CHECK(drawn.top[1].second == doctest::Approx(-2.145078).epsilon(1e-4));
  }
  CHECK(draw(logits, {.top_logprobs = 9}, 0).top.size() == 4);
  CHECK(draw(logits, {}, 0).top.empty());
}

TEST_CASE("B04: top_k 0 and -1 are off; equal logits are drawn equally often") {
  for (const int top_k : {0, -1}) {
    for (const int count : counts(at::zeros({4}), {.top_k = top_k, .seed = 7}, 4000)) {
      CHECK(count >= 835);  // 1000 +- 6 sigma
      CHECK(count <= 1165);
    }
  }
}

TEST_CASE("B04: every position draws anew, the same seed repeats, another seed differs") {
  const auto drawn = [](std::uint64_t seed) {
    std::vector<TokenId> tokens;
    for (std::uint64_t i = 0; i < 64; ++i) tokens.push_back(draw(at::zeros({16}), {.seed = seed}, i).token);
    return tokens;
  };
  const std::vector<TokenId> first = drawn(1);
  CHECK(std::set(first.begin(), first.end()).size() >= 9);
  CHECK(drawn(1) == first);
  CHECK(drawn(2) != first);
  CHECK(drawn(0) != drawn(1));
  // Seeds one step of a SplitMix64 apart do not give the same draws, shifted by one.
  const std::vector<TokenId> a = drawn(0), b = drawn(0x9E3779B97F4A7C15ULL);
  CHECK(std::vector(a.begin() + 1, a.end()) != std::vector(b.begin(), b.end() - 1));
}

TEST_CASE("draws follow the probabilities") {
  // p = 0.6439, 0.2369, 0.0871, 0.0321: softmax of 2, 1, 0, -1
  const std::vector<int> result = counts(logits_of({2, 1, 0, -1}), {.seed = 3}, 10'000);
  CHECK(std::abs(result[0] - 6439) < 290);  // 6 sigma each
  CHECK(std::abs(result[1] - 2369) < 256);
  CHECK(std::abs(result[2] - 871) < 170);
  CHECK(std::abs(result[3] - 321) < 106);
}

TEST_CASE("temperature 0 takes the best token; its log-prob is that at temperature 1") {
  const Drawn drawn = draw(logits_of({2, 1, 4, -1}), {.temperature = 0}, 0);
  CHECK(drawn.token == 2);
  CHECK(drawn.logp == doctest::Approx(-0.175515).epsilon(1e-5));
}

TEST_CASE("top_k and top_p draw from the best tokens and report the renormalised log-prob") {
  const at::Tensor logits = logits_of({0, 2, -1, 1});  // p = 0.0871, 0.6439, 0.0321, 0.2369
  const std::vector<int> best_two = counts(logits, {.top_k = 2}, 1000);
  CHECK(best_two[0] + best_two[2] == 0);
  CHECK(best_two[3] > 0);
  // 0.6439 alone is below 0.7, with the next it is enough.
  CHECK(counts(logits, {.top_p = 0.7}, 1000) == best_two);
  CHECK(counts(logits, {.top_p = 0.6}, 1000)[1] == 1000);
  for (const Sampling& sampling : {Sampling{.top_k = 2}, Sampling{.top_p = 0.7}}) {
    CHECK(logp_of(1, logits, sampling) == doctest::Approx(-0.313262).epsilon(1e-5));  // log(1 / (1 + e^-1))
    CHECK(logp_of(3, logits, sampling) == doctest::Approx(-1.313262).epsilon(1e-5));
  }
}

TEST_CASE("a token that cannot be, is never drawn") {
  const float never = -std::numeric_limits<float>::infinity();
  const std::vector<int> result = counts(logits_of({never, 0, never, 0, never}), {.seed = 11}, 1000);
  CHECK(result[1] + result[3] == 1000);
  CHECK(result[1] > 400);
}

}  // namespace
}  // namespace millrace
