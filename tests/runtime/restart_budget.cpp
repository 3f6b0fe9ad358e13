#include "runtime/restart_budget.hpp"

#include <doctest/doctest.h>

using namespace millrace;

TEST_CASE("the first start is at once, each further one within a minute waits twice as long, and too many end it") {
  RestartBudget budget(5, 0.1);
  CHECK(budget.died(0) == 0.0);
  CHECK(budget.died(1) == doctest::Approx(0.1));
  CHECK(budget.died(2) == doctest::Approx(0.2));
  CHECK(budget.died(3) == doctest::Approx(0.4));
  CHECK(budget.died(4) == doctest::Approx(0.8));
  CHECK_FALSE(budget.died(5));
}

TEST_CASE("what is a minute ago is forgotten, and nothing waits longer than five seconds") {
  RestartBudget budget(1000, 1.0);
  for (int i = 0; i < 20; ++i) CHECK(budget.died(i).value() <= 5.0);
  CHECK(budget.died(20) == 5.0);
  CHECK(budget.died(200) == 0.0);
  RestartBudget none(0, 1.0);
  CHECK_FALSE(none.died(0));
}
