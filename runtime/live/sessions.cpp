// Sessions of /rl: keys, rewards that may be replaced until the end, turns that become lessons then.
#include "runtime/live/interactions_state.hpp"

namespace millrace {

expected<LiveAnswer> Interactions::start_session(const std::string& task, const std::string& key, double now) {
  const std::string id = random_name("sess-");
  const std::string bearer = key.empty() ? random_name(session_key_prefix) : key;
  const auto found = state_->read("select 1 from sessions where key = ?1 and state = 'open'", bearer);
  if (!found) return tl::unexpected(found.error());
  if (*found) return refused(409, "this key belongs to another session: end it first, or leave the key out", "api_key");
  const auto written = state_->write(
      "insert into sessions (id, key, task, state, used) values (?1, ?2, ?3, 'open', ?4)", id, bearer, task, now);
  if (!written) return tl::unexpected(written.error());
  return LiveAnswer{200, {{"session_id", id}, {"api_key", bearer}}, "", ""};
}

expected<std::optional<std::string>> Interactions::session_of(const std::string& key, double now) {
  const auto found = state_->read("select id, used from sessions where key = ?1 and state = 'open'", key);
  if (!found) return tl::unexpected(found.error());
  if (!*found || now > (*found)->real(1) + state_->settings.expire_s) return std::nullopt;
  std::string id = (*found)->text(0);
  const auto written = state_->write("update sessions set used = ?2 where id = ?1", id, now);
  if (!written) return tl::unexpected(written.error());
  return id;
}

expected<LiveAnswer> Interactions::set_reward(const std::string& session, const Feedback& feedback, double now) {
  const auto found = state_->read(
      "select id from interactions where session = ?1 and (?2 = '' or id = ?2) and state = 'open' "
      "order by rowid desc limit 1",
      session, feedback.interaction_id);
  if (!found) return tl::unexpected(found.error());
  if (!*found) return refused(404, "the session has no such interaction", "interaction_id");
  auto answer = this->feedback({(*found)->text(0), feedback.reward, false}, now);
  if (!answer || answer->status != 200) return answer;
  const auto count = state_->read("select count(*) from interactions where session = ?1", session);
  if (!count) return tl::unexpected(count.error());
  answer->body = {{"message", "reward set"},
                  {"session_id", session},
                  {"interaction_id", (*found)->text(0)},
                  {"interaction_count", (*count)->integer(0)}};
  return answer;
}

expected<LiveAnswer> Interactions::end_session(const std::string& session, double now) {
  auto transaction = Transaction::begin(state_->database);
  if (!transaction) return tl::unexpected(transaction.error());
  const auto lessons = state_->close_session(session, "ended", now);
  if (!lessons) return tl::unexpected(lessons.error());
  if (auto committed = transaction->commit(); !committed) return tl::unexpected(committed.error());
  return LiveAnswer{200, {{"message", "session ended"}, {"session_id", session}, {"trajectories", *lessons}}, "", ""};
}

}  // namespace millrace
