#include "runtime/evaluation.hpp"

#include <cmath>

#include <doctest/doctest.h>

using namespace millrace;

TEST_CASE("figures of an evaluation, by hand: observations count for nothing") {
  Trajectory first, second;
  first.sequence = {.tokens = {1, 7, 8, 9, 7, 8},
                    .mask = {0, 1, 1, 0, 1, 1},
                    .behaviour = {0, -1, -1, 0, -2, -2},
                    .rewards = {0, 0, 0, 0, 0, 1}};
  first.score.total = 1;
  second.sequence = {.tokens = {1, 7, 9}, .mask = {0, 1, 1}, .behaviour = {0, -1, -2}, .rewards = {0, 0, 0}};
  const Evaluation result = evaluation_of({first, second}, {{0, -2, -2, 5, -3, -2}, {0, -1, -2}});
  CHECK(result.tasks == 2);
  CHECK(result.reward_mean == doctest::Approx(0.5));
  CHECK(result.length_mean == doctest::Approx(3));
  CHECK(result.perplexity == doctest::Approx(std::exp(12.0 / 6)));
  CHECK(result.kl == doctest::Approx((12.0 - 9.0) / 6));
  CHECK(result.distinct_bigrams == doctest::Approx(2.0 / 3));  // 7 8, 7 8, 7 9
  CHECK(evaluation_of({}, {}).tasks == 0);
}
