#include "runtime/watchdog.hpp"

#include <doctest/doctest.h>

#include <future>

using namespace millrace;

TEST_CASE("work that takes too long is noticed and named; work that ends in time is not") {
  Activity activity;
  std::promise<std::string> ended;
  auto what = ended.get_future();
  const Watchdog watchdog(activity, 0.2, [&](const std::string& hanging) { ended.set_value(hanging); });
  for (int i = 0; i < 6; ++i) {
    const BusyTimer busy(activity.generator_busy_ns);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(what.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  CHECK(activity.generator_busy_ns > 200'000'000u);
  const BusyTimer busy(activity.policy_busy_ns);
  REQUIRE(what.wait_for(std::chrono::seconds(5)) == std::future_status::ready);
  CHECK(what.get() == "policy_learner");
}
