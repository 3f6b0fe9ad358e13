#include "runtime/live/interactions.hpp"

#include "runtime/live/interactions_state.hpp"

namespace millrace {
namespace {

using nlohmann::json;

LiveAnswer taken(const std::string& id, const char* state) {
  return {200, {{"interaction_id", id}, {"state", state}}, "", ""};
}

}  // namespace

Interactions::Interactions(std::unique_ptr<State> state) : state_(std::move(state)) {}
Interactions::Interactions(Interactions&&) noexcept = default;
Interactions& Interactions::operator=(Interactions&&) noexcept = default;
Interactions::~Interactions() = default;

expected<Interactions> Interactions::open(const std::string& directory, const LiveSettings& settings) {
  auto database = open_live_file(directory);
  if (!database) return tl::unexpected(database.error());
  return Interactions(std::make_unique<State>(State{std::move(*database), settings}));
}

// Nobody was promised anything yet; a reward that is promised to be kept takes its answer to the disk with it.
expected<void> Interactions::record(const Interaction& i) {
  return state_->write_soon(
      "insert or ignore into interactions (id, client, session, dialogue, question, state, created, body) "
      "values (?1, ?2, ?3, ?4, ?5, 'open', ?6, ?7)",
      i.id, i.client, i.session, i.dialogue, i.question, i.created + i.seconds,
      to_json(i).dump(-1, ' ', false, json::error_handler_t::replace));
}

std::optional<Interaction> Interactions::find_dialogue(const std::string& key) {
  const auto row = state_->read(
      "select body from interactions where dialogue = ?1 and body is not null order by rowid desc limit 1", key);
  if (!row || !*row) return {};
  auto interaction = interaction_of(json::parse((*row)->text(0)));
  return interaction ? std::optional(std::move(*interaction)) : std::nullopt;
}

expected<LiveAnswer> Interactions::feedback(const Feedback& feedback, double now) {
  auto transaction = Transaction::begin(state_->database);
  if (!transaction) return tl::unexpected(transaction.error());
  const auto found = state_->read("select state, reward, created, body, session from interactions where id = ?1",
                                  feedback.interaction_id);
  if (!found) return tl::unexpected(found.error());
  if (!*found) return refused(404, "no interaction has this id", "interaction_id");
  const Statement& row = **found;
  const std::string state = row.text(0);
  const bool repeated = !row.is_null(1) && row.real(1) == feedback.reward;
  const std::string session = row.text(4);
  if (state == "closed") {
    if (repeated) return taken(feedback.interaction_id, "repeated");
    return refused(409, "this interaction already has its final reward, and it is another one", "reward");
  }
  if (state == "expired" || now > row.real(2) + state_->settings.expire_s) {
    return refused(410, "the time for feedback on this interaction is over", "interaction_id");
  }
  const auto interaction = interaction_of(json::parse(row.text(3)));
  if (!interaction) return tl::unexpected(interaction.error());
  // A session's turns are joined when it ends; until then a reward may be replaced.
  const bool closes = feedback.final && session.empty();
  auto written = state_->write("update interactions set reward = ?2, state = ?3 where id = ?1", feedback.interaction_id,
                               feedback.reward, closes ? "closed" : "open");
  if (written && closes) {
    written = state_->add_lesson(feedback.interaction_id, interaction->client, {{*interaction, feedback.reward}}, now);
  }
  if (written) written = transaction->commit();
  if (!written) return tl::unexpected(written.error());
  LiveAnswer answer = taken(feedback.interaction_id, closes ? "accepted" : repeated ? "repeated" : "open");
  if (closes) answer.rated_newest = interaction->newest;
  return answer;
}

expected<int> Interactions::expire(double now) {
  auto transaction = Transaction::begin(state_->database);
  if (!transaction) return tl::unexpected(transaction.error());
  if (auto rated = state_->rate_abandoned(now); !rated) return tl::unexpected(rated.error());
  const double limit = now - state_->settings.expire_s;
  auto old = state_->database.prepare("select id from sessions where state = 'open' and used < ?1");
  if (!old) return tl::unexpected(old.error());
  old->bind(limit);
  const auto closed = old->for_each_row([&]() -> expected<void> {
    if (auto one = state_->close_session(old->text(0), "expired", now); !one) return tl::unexpected(one.error());
    return {};
  });
  if (!closed) return tl::unexpected(closed.error());
  // A reward that was not called final counts as it stood.
  auto rows = state_->database.prepare(
      "select id, client, reward, body from interactions where state = 'open' and session = '' and created < ?1");
  if (!rows) return tl::unexpected(rows.error());
  rows->bind(limit);
  int count = 0;
  const auto taught = rows->for_each_row([&]() -> expected<void> {
    ++count;
    if (rows->is_null(2)) return {};
    auto interaction = interaction_of(json::parse(rows->text(3)));
    if (!interaction) return tl::unexpected(interaction.error());
    const auto added =
        state_->add_lesson(rows->text(0), rows->text(1), {{std::move(*interaction), rows->real(2)}}, now);
    if (!added) return tl::unexpected(added.error());
    return {};
  });
  if (!taught) return tl::unexpected(taught.error());
  auto written = state_->write(
      "update interactions set state = 'expired', body = null where state = 'open' and session = '' and created < ?1",
      limit);
  // The exact tokens of a conversation are of use as long as it may go on.
  if (written)
    written = state_->write(
        "update interactions indexed by interactions_remembered set body = null "
        "where body is not null and session = '' and created < ?1",
        limit);
  if (written) written = transaction->commit();
  if (!written) return tl::unexpected(written.error());
  return count;
}

expected<void> Interactions::prune(double before) {
  auto transaction = Transaction::begin(state_->database);
  if (!transaction) return tl::unexpected(transaction.error());
  auto written = state_->write(
      "delete from interactions where rowid in (select rowid from interactions where state in ('closed', 'expired') "
      "and created < ?1 limit 1000)",
      before);
  if (written) {
    written = state_->write(
        "delete from lessons where number in (select number from lessons indexed by lessons_by_age where created < ?1 "
        "and state in ('submitted', 'capped') limit 1000)",
        before);
  }
  if (written)
    written = state_->write("delete from sessions where state in ('ended', 'expired') and used < ?1", before);
  return written ? transaction->commit() : written;
}

expected<json> Interactions::forget(const std::string& client) {
  auto transaction = Transaction::begin(state_->database);
  if (!transaction) return tl::unexpected(transaction.error());
  json report = {{"client", client}, {"interactions", 0}, {"lessons", 0}, {"trajectories", json::array()}};
  const auto interactions = state_->read("select count(*) from interactions where client = ?1", client);
  if (!interactions) return tl::unexpected(interactions.error());
  report["interactions"] = (*interactions)->integer(0);
  auto rows = state_->database.prepare("select trajectory from lessons where client = ?1 order by number");
  if (!rows) return tl::unexpected(rows.error());
  rows->bind(client);
  int lessons = 0;
  const auto read = rows->for_each_row([&]() -> expected<void> {
    ++lessons;
    if (!rows->is_null(0)) report["trajectories"].push_back(rows->integer(0));
    return {};
  });
  if (!read) return tl::unexpected(read.error());
  report["lessons"] = lessons;
  auto written = state_->write("delete from lessons where client = ?1 and state = 'waiting'", client);
  if (written) written = state_->write("delete from interactions where client = ?1", client);
  if (written) written = transaction->commit();
  if (!written) return tl::unexpected(written.error());
  return report;
}

}  // namespace millrace
