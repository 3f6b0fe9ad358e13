#include "runtime/give_way.hpp"

#include <doctest/doctest.h>

using namespace millrace;

namespace {

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void work_for(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

}  // namespace

TEST_CASE("a pause is at most so many times as long as the pass, and only while somebody is served") {
  Activity activity;
  const auto paused = [&](int priority) {
    GiveWay give_way(activity, priority);
    work_for(std::chrono::milliseconds(50));
    return seconds_of([&] { give_way.end(); });
  };
  CHECK(paused(3) < 0.02);  // nobody is served
  activity.served_turns = 1;
  CHECK(paused(0) < 0.02);
  const double twice = paused(2);
  CHECK(twice > 0.09);
  CHECK(twice < 0.25);
}

TEST_CASE("a pause ends with the last served turn, and the next pass is counted from there") {
  Activity activity;
  activity.served_turns = 1;
  GiveWay give_way(activity, 100);
  work_for(std::chrono::milliseconds(50));
  std::thread last([&] {
    work_for(std::chrono::milliseconds(100));
    activity.served_turns = 0;
  });
  CHECK(seconds_of([&] { give_way.next(); }) < 2);
  last.join();
  activity.served_turns = 1;
  CHECK(seconds_of([&] { give_way.end(); }) < 1);  // of a pass of nearly no time
}
