#include "runtime/environments/process.hpp"

#include <mutex>
#include <optional>

#include "runtime/environments/remote_step.hpp"
#include "runtime/piped_process.hpp"

namespace millrace {
namespace {

using nlohmann::json;

constexpr std::size_t max_line = 16 << 20;  // bytes of one answer

// Programs that have finished an episode and wait for the next: to start one may take seconds.
struct Pool {
  std::string command;
  double step_timeout_s = 0;
  std::mutex mutex;
  std::vector<PipedProcess> idle;

  expected<PipedProcess> take() {
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        PipedProcess process = std::move(idle.back());
        idle.pop_back();
        return process;
      }
    }
    return PipedProcess::start({"/bin/sh", "-c", "exec " + command});
  }
  void give(PipedProcess process) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(process));
  }
};

class ProcessEnvironment : public Environment {
 public:
  explicit ProcessEnvironment(std::shared_ptr<Pool> pool) : pool_(std::move(pool)) {}
  // Only a program that has answered well is used again; any other goes with its session.
  ~ProcessEnvironment() override {
    if (process_ && healthy_) pool_->give(std::move(*process_));
  }

  expected<Task> reset(std::uint64_t episode) override {
    auto process = pool_->take();
    if (!process) return tl::unexpected(process.error());
    process_ = std::move(*process);
    const auto answer = ask({{"type", "reset"}, {"episode", episode}});
    if (!answer) return tl::unexpected(answer.error());
    return checked(task_of(*answer));
  }

  expected<Observation> step(const std::string& action) override {
    const auto answer = ask({{"type", "step"}, {"action", action}});
    if (!answer) return tl::unexpected(answer.error());
    return checked(observation_of(*answer));
  }

 private:
  expected<json> ask(const json& question) {
    healthy_ = false;
    const std::string line = question.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    const auto answer = process_->write(line, pool_->step_timeout_s).and_then([&] {
      return process_->read_line(pool_->step_timeout_s, max_line);
    });
    if (!answer) return fail(pool_->command + ": " + answer.error().message);
    json document = json::parse(*answer, nullptr, false);
    if (document.is_discarded()) return fail(pool_->command + ": its answer is not JSON: " + answer->substr(0, 200));
    return document;
  }

  template <class T>
  expected<T> checked(expected<T> result) {
    healthy_ = result.has_value();
    if (!result) return fail(pool_->command + ": " + result.error().message);
    return result;
  }

  std::shared_ptr<Pool> pool_;
  std::optional<PipedProcess> process_;
  bool healthy_ = false;
};

}  // namespace

expected<EnvironmentFactory> make_process(const EnvironmentSettings& settings) {
  if (settings.command.empty()) return fail("\"environment.command\": process needs the program to run");
  auto pool = std::make_shared<Pool>();
  pool->command = settings.command;
  pool->step_timeout_s = settings.step_timeout_s;
  return [pool] { return std::make_unique<ProcessEnvironment>(pool); };
}

}  // namespace millrace
