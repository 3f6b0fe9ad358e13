#pragma once
// How event-based actors share threads: two lanes, a thread each. An actor stays in its lane, so what it keeps stays in
// one core's cache, and what waits for it is worked off together. Sessions and whatever else there is are in the first
// lane; in the second are those that all sessions ask: the gate, the scorer. A policy of CAF's scheduler.
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/logger.hpp>
#include <caf/policy/unprofiled.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/coordinator.hpp>

namespace millrace {

// Who may be in the second lane. In the service, generator and learners have threads of their own.
enum class Asked { gatekeeper, scorer, generator, value_learner, policy_learner };

class Lanes : public caf::policy::unprofiled {
 public:
  static constexpr std::size_t count = 2;

  struct coordinator_data {
    explicit coordinator_data(caf::scheduler::abstract_coordinator*) {}
    std::array<std::atomic<const caf::resumable*>, 5> second{};  // by Asked
  };

  // A lane: jobs of its own thread, and what other threads have put there since.
  struct worker_data {
    explicit worker_data(caf::scheduler::abstract_coordinator*) {}
    worker_data(const worker_data&) {}  // CAF copies an empty one
    std::deque<caf::resumable*> jobs;
    int turns = 0;  // since it has taken what had arrived
    std::mutex mutex;
    std::condition_variable came;
    std::deque<caf::resumable*> arrived;
    std::atomic<bool> any_arrived = false;
  };

  template <class Coordinator>
  void central_enqueue(Coordinator* self, caf::resumable* job) {
    external_enqueue(self->worker_by_id(lane_of(self, job)), job);
  }
  template <class Worker>
  void external_enqueue(Worker* self, caf::resumable* job) {
    {
      const std::lock_guard lock(d(self).mutex);
      d(self).arrived.push_back(job);
      d(self).any_arrived.store(true, std::memory_order_relaxed);  // the mutex orders the rest
    }
    d(self).came.notify_one();
  }
  template <class Worker>
  void internal_enqueue(Worker* self, caf::resumable* job) {
    const std::size_t lane = lane_of(self->parent(), job);
    if (lane == self->id()) return d(self).jobs.push_back(job);
    external_enqueue(self->parent()->worker_by_id(lane), job);
  }
  template <class Worker>
  void resume_job_later(Worker* self, caf::resumable* job) {
    internal_enqueue(self, job);
  }

  template <class Worker>
  caf::resumable* dequeue(Worker* self) {
    constexpr int looks = 100;      // some 50 us: to sleep and be woken takes as long
    constexpr int most_turns = 64;  // before what has arrived is looked at: to fetch each by itself costs as much as it
    auto& lane = d(self);
    const auto any_arrived = [&] { return lane.any_arrived.load(std::memory_order_relaxed); };
    for (int look = 0; lane.jobs.empty() && !any_arrived() && look < looks; ++look) std::this_thread::yield();
    if (lane.jobs.empty() || (++lane.turns >= most_turns && any_arrived())) {
      std::unique_lock lock(lane.mutex);
      lane.came.wait(lock, [&] { return !lane.arrived.empty(); });
      lane.jobs.insert(lane.jobs.end(), lane.arrived.begin(), lane.arrived.end());
      lane.arrived.clear();
      lane.any_arrived = false;
      lane.turns = 0;
    }
    caf::resumable* job = lane.jobs.front();
    lane.jobs.pop_front();
    return job;
  }

  // At the end of the system.
  template <class Worker, class Release>
  void foreach_resumable(Worker* self, Release release) {
    for (auto* jobs : {&d(self).jobs, &d(self).arrived}) {
      for (caf::resumable* job : *jobs) release(job);
      jobs->clear();
    }
  }
  template <class Coordinator, class Release>
  void foreach_central_resumable(Coordinator*, Release) {}

 private:
  template <class Coordinator>
  static std::size_t lane_of(Coordinator* coordinator, const caf::resumable* job) {
    for (const auto& second : d(coordinator).second) {
      if (second.load(std::memory_order_relaxed) == job) return 1;
    }
    return 0;
  }
};

}  // namespace millrace

// CAF's own loop without its logger, which writes nothing here, but takes a lock that all threads share, several times
// a turn, and asks every job by dynamic_cast which actor it is.
template <>
inline void caf::scheduler::worker<millrace::Lanes>::run() {
  while (true) {
    resumable* job = policy_.dequeue(this);
    caf::logger::set_current_actor_system(nullptr);  // an actor that makes another one turns it on
    switch (job->resume(this, max_throughput_)) {
      case resumable::resume_later: policy_.resume_job_later(this, job); break;  // and stays referred to
      case resumable::done:
      case resumable::awaiting_message: intrusive_ptr_release(job); break;
      case resumable::shutdown_execution_unit: return;
    }
  }
}

namespace millrace {

// Whoever was there before goes back into the first lane.
template <class Actor>
void put_in_second_lane(caf::actor_system& system, Asked as, const Actor& actor) {
  auto& scheduler = dynamic_cast<caf::scheduler::coordinator<Lanes>&>(system.scheduler());
  const auto* job = dynamic_cast<const caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(actor));
  scheduler.data().second[static_cast<std::size_t>(as)] = job;
}

}  // namespace millrace
