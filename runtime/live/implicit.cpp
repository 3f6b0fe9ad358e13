// What clients say without saying it: who asks for another answer to the same words did not like the one he had; who
// leaves a conversation where it stands may have had enough. Both are rules that the config has to switch on, and count
// for named clients only: of others nobody knows whether they are the same.
#include "runtime/live/interactions_state.hpp"

namespace millrace {

expected<int> Interactions::asked(const std::string& client, const std::vector<Message>& messages, double now) {
  const LiveSettings& rules = state_->settings;
  if (client.empty() || messages.empty()) return 0;
  if (rules.regenerated_reward == 0 && rules.abandoned_reward == 0) return 0;
  auto transaction = Transaction::begin(state_->database);
  if (!transaction) return tl::unexpected(transaction.error());
  const std::string before = dialogue_key(client, {messages.begin(), messages.end() - 1});
  const std::string question = dialogue_key(client, messages);
  auto noted =
      state_->write("update interactions set continued = 1 where session = '' and (dialogue = ?1 or question = ?2)",
                    before, question);
  if (!noted) return tl::unexpected(noted.error());
  expected<int> rated = 0;
  if (rules.regenerated_reward != 0) {
    rated = state_->rate_unrated("question = ?1", question, rules.regenerated_reward, now);
  }
  if (!rated) return rated;
  return transaction->commit().map([&] { return *rated; });
}

expected<int> Interactions::State::rate_abandoned(double now) {
  if (settings.abandoned_reward == 0) return 0;
  return rate_unrated("continued = 0 and created < ?1", now - settings.abandoned_after_s, settings.abandoned_reward,
                      now);
}

}  // namespace millrace
