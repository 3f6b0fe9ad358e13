#pragma once
// Joins the two learners' reports of a step, adds what the compute actors did meanwhile, and shows the whole to whoever
// runs the service. Both learners report every step in order, so two queues are enough. A guard reads every report.
#include <chrono>
#include <deque>
#include <functional>
#include <optional>

#include "actors/protocol/interfaces.hpp"
#include "runtime/activity.hpp"
#include "runtime/guard.hpp"

namespace millrace {

struct ObserverSetup {
  GuardSettings guard;
  EvaluationSettings evaluation;
  EvaluatorActor evaluator;
  GatekeeperActor gatekeeper;
  PolicyLearnerActor policy;
  LiveActor live;  // told of alarms; may be none
  Metrics* metrics = nullptr;
  Activity* activity = nullptr;
  std::function<void(const StepReport&)> on_step;
};

struct ObserverState {
  std::deque<StepReport> policy;
  std::deque<ValueReport> value;
  StepReport latest;
  std::optional<Guard> guard;
  Evaluation evaluation;  // the last one

  // What the counters stood at when the last report was made.
  std::chrono::steady_clock::time_point since;
  std::uint64_t generated = 0, passes = 0, generator_ns = 0, policy_ns = 0, value_ns = 0;

  void start(const Activity& activity);
  void measure(StepReport& report, const Activity& activity);
  static const char* name;
};

ObserverActor::behavior_type observer(ObserverActor::stateful_pointer<ObserverState> self, ObserverSetup setup);

}  // namespace millrace
