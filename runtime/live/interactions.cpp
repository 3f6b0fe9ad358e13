#include "runtime/live/interactions.hpp"

#include "runtime/live/live_file.hpp"

namespace millrace {
namespace {

using nlohmann::json;

constexpr double limit_window_s = 3600;

LiveAnswer refused(int status, std::string message, std::string param) {
  return {status, {}, std::move(message), std::move(param)};
}

LiveAnswer taken(const std::string& id, const char* state) {
  return {200, {{"interaction_id", id}, {"state", state}}, "", ""};
}

}  // namespace

struct Interactions::State {
  Database database;
  LiveSettings settings;

  // Runs a statement to its end.
  template <class... Values>
  expected<void> write(const char* sql, const Values&... values) {
    auto statement = database.prepare(sql);
    if (!statement) return tl::unexpected(statement.error());
    statement->bind(values...);
    return statement->execute();
  }

  // The statement at its first row, or none.
  template <class... Values>
  expected<std::optional<Statement>> read(const char* sql, const Values&... values) {
    auto statement = database.prepare(sql);
    if (!statement) return tl::unexpected(statement.error());
    statement->bind(values...);
    const auto row = statement->step();
    if (!row) return tl::unexpected(row.error());
    return *row ? std::optional(std::move(*statement)) : std::nullopt;
  }

  expected<void> add_lesson(const std::string& source, const std::string& client, const std::vector<RewardedTurn>& run,
                            double now) {
    json body = json::array();
    for (const RewardedTurn& turn : run) {
      body.push_back(
          {{"interaction", to_json(turn.interaction)}, {"reward", turn.reward ? json(*turn.reward) : json()}});
    }
    const auto taught = taught_by(client, now);
    if (!taught) return tl::unexpected(taught.error());
    const bool capped = settings.client_limit > 0 && *taught >= settings.client_limit;
    return write("insert into lessons (source, client, created, state, body) values (?1, ?2, ?3, ?4, ?5)", source,
                 client, now, capped ? "capped" : "waiting",
                 capped ? "[]" : body.dump(-1, ' ', false, json::error_handler_t::replace));
  }

  // Lessons that count towards the client's limit.
  expected<std::int64_t> taught_by(const std::string& client, double now) {
    const auto row = read("select count(*) from lessons where client = ?1 and state <> 'capped' and created > ?2",
                          client, now - limit_window_s);
    if (!row) return tl::unexpected(row.error());
    return (*row)->integer(0);
  }

  // The session's turns become lessons and it ends.
  expected<int> close_session(const std::string& session, const char* ending, double now) {
    auto rows = database.prepare(
        "select body, reward from interactions where session = ?1 and body is not null order by rowid");
    if (!rows) return tl::unexpected(rows.error());
    rows->bind(session);
    std::vector<RewardedTurn> turns;
    const auto read = rows->for_each_row([&]() -> expected<void> {
      auto interaction = interaction_of(json::parse(rows->text(0)));
      if (!interaction) return tl::unexpected(interaction.error());
      turns.push_back({std::move(*interaction), rows->is_null(1) ? std::nullopt : std::optional(rows->real(1))});
      return {};
    });
    if (!read) return tl::unexpected(read.error());
    int count = 0;
    for (const auto& run : join_turns(turns)) {
      const std::string source = session + "/" + std::to_string(count);
      if (auto added = add_lesson(source, run.front().interaction.client, run, now); !added) {
        return tl::unexpected(added.error());
      }
      ++count;
    }
    auto closed = write("update interactions set state = 'closed', body = null where session = ?1", session);
    if (closed) closed = write("update sessions set state = ?2 where id = ?1", session, ending);
    if (!closed) return tl::unexpected(closed.error());
    return count;
  }
};

Interactions::Interactions(std::unique_ptr<State> state) : state_(std::move(state)) {}
Interactions::Interactions(Interactions&&) noexcept = default;
Interactions& Interactions::operator=(Interactions&&) noexcept = default;
Interactions::~Interactions() = default;

expected<Interactions> Interactions::open(const std::string& directory, const LiveSettings& settings) {
  auto database = open_live_file(directory);
  if (!database) return tl::unexpected(database.error());
  return Interactions(std::make_unique<State>(State{std::move(*database), settings}));
}

expected<void> Interactions::record(const Interaction& i) {
  return state_->write(
      "insert or ignore into interactions (id, client, session, dialogue, state, created, body) "
      "values (?1, ?2, ?3, ?4, 'open', ?5, ?6)",
      i.id, i.client, i.session, i.dialogue, i.created + i.seconds,
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

expected<std::optional<Lesson>> Interactions::next_lesson() {
  // Who has taught least comes first: one client that floods the service waits behind all others.
  const auto found = state_->read(
      "select number, client, body from lessons l where state = 'waiting' order by "
      "(select count(*) from lessons t where t.client = l.client and t.state not in ('waiting', 'capped') and "
      "t.created > l.created - 3600), "
      "number limit 1");
  if (!found) return tl::unexpected(found.error());
  if (!*found) return std::nullopt;
  Lesson lesson{(*found)->integer(0), (*found)->text(1), {}};
  for (const json& turn : json::parse((*found)->text(2))) {
    auto interaction = interaction_of(turn.at("interaction"));
    if (!interaction) return tl::unexpected(interaction.error());
    const json& reward = turn.at("reward");
    lesson.run.push_back(
        {std::move(*interaction), reward.is_number() ? std::optional(reward.get<double>()) : std::nullopt});
  }
  return lesson;
}

expected<void> Interactions::assign(std::int64_t lesson, TrajectoryId trajectory) {
  return state_->write("update lessons set state = 'assigned', trajectory = ?2 where number = ?1", lesson, trajectory);
}

expected<void> Interactions::confirm(std::int64_t lesson) {
  return state_->write("update lessons set state = 'submitted', body = null where number = ?1", lesson);
}

expected<void> Interactions::unassign(std::int64_t lesson) {
  return state_->write("update lessons set state = 'waiting', trajectory = null where number = ?1", lesson);
}

expected<std::int64_t> Interactions::waiting_lessons() {
  return state_->database.number("select count(*) from lessons where state = 'waiting'");
}

expected<std::vector<Interactions::Assigned>> Interactions::assigned() {
  auto rows = state_->database.prepare(
      "select number, trajectory, json_extract(body, '$[0].interaction.created') from lessons where state = "
      "'assigned'");
  if (!rows) return tl::unexpected(rows.error());
  std::vector<Assigned> list;
  const auto read = rows->for_each_row([&]() -> expected<void> {
    list.push_back({rows->integer(0), static_cast<TrajectoryId>(rows->integer(1)), rows->real(2)});
    return {};
  });
  if (!read) return tl::unexpected(read.error());
  return list;
}

expected<int> Interactions::expire(double now) {
  auto transaction = Transaction::begin(state_->database);
  if (!transaction) return tl::unexpected(transaction.error());
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
    written = state_->write("update interactions set body = null where session = '' and created < ?1", limit);
  if (written) written = transaction->commit();
  if (!written) return tl::unexpected(written.error());
  return count;
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
