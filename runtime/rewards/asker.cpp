#include "runtime/rewards/asker.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

namespace millrace {

namespace {

using Question = std::tuple<std::shared_ptr<const RewardSpec>, std::string, std::string, std::string>;

}  // namespace

struct Asker::State {
  explicit State(int parallel) : threads(static_cast<std::size_t>(parallel)) {}

  void answer(const Question& question) {
    const auto& [spec, text, expected_answer, task] = question;
    const expected<Score> score = spec->ask({text, expected_answer, task});
    std::vector<Done> waiting;
    {
      const std::lock_guard lock(mutex);
      waiting = std::move(open.extract(question).mapped());
    }
    for (const Done& done : waiting) done(score);
  }

  const std::size_t threads;
  std::mutex mutex;
  std::map<Question, std::vector<Done>> open;
  std::optional<boost::asio::thread_pool> pool;  // once there is a question; last, so that its threads end first
};

Asker::Asker(int parallel) : state_(std::make_unique<State>(parallel)) {}

Asker::~Asker() = default;

void Asker::ask(const std::shared_ptr<const RewardSpec>& spec, const ScoredAnswer& answer, Done done) {
  Question question(spec, answer.answer, answer.expected_answer, answer.task);
  const std::lock_guard lock(state_->mutex);
  std::vector<Done>& waiting = state_->open[question];
  waiting.push_back(std::move(done));
  if (waiting.size() > 1) return;
  if (!state_->pool) state_->pool.emplace(state_->threads);
  boost::asio::post(*state_->pool, [state = state_.get(), question = std::move(question)] { state->answer(question); });
}

}  // namespace millrace
