#pragma once
// What is behind Interactions; for its files only.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/live/interactions.hpp"
#include "runtime/live/live_file.hpp"

namespace millrace {

inline LiveAnswer refused(int status, std::string message, std::string param) {
  return {status, {}, std::move(message), std::move(param)};
}

struct Interactions::State {
  static constexpr double limit_window_s = 3600;  // of live.client_limit
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

  // The same, without waiting for the disk: a power cut, though no kill, may undo it until the next write() is done.
  // For what is found out again.
  template <class... Values>
  expected<void> write_soon(const char* sql, const Values&... values) {
    auto done = database.execute("pragma synchronous = normal");
    if (done) done = write(sql, values...);
    const auto back = database.execute("pragma synchronous = full");
    return done ? back : done;
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
    nlohmann::json body = nlohmann::json::array();
    for (const RewardedTurn& turn : run) {
      body.push_back({{"interaction", to_json(turn.interaction)},
                      {"reward", turn.reward ? nlohmann::json(*turn.reward) : nlohmann::json()}});
    }
    const auto taught = settings.client_limit > 0 ? taught_by(client, now) : 0;
    if (!taught) return tl::unexpected(taught.error());
    const bool capped = settings.client_limit > 0 && *taught >= settings.client_limit;
    return write("insert into lessons (source, client, created, state, body) values (?1, ?2, ?3, ?4, ?5)", source,
                 client, now, capped ? "capped" : "waiting",
                 capped ? "[]" : body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  // Gives this reward to answers outside sessions that have none yet and of which the condition holds for ?1. Returns
  // how many there were.
  template <class Value>
  expected<int> rate_unrated(const std::string& condition, const Value& value, double reward, double now) {
    const std::string unrated =
        " where state = 'open' and session = '' and client <> '' and reward is null and " + condition;
    auto rows = database.prepare("select id, client, body from interactions" + unrated);
    if (!rows) return tl::unexpected(rows.error());
    rows->bind(value);
    const auto taught = rows->for_each_row([&]() -> expected<void> {
      auto interaction = interaction_of(nlohmann::json::parse(rows->text(2)));
      if (!interaction) return tl::unexpected(interaction.error());
      return add_lesson(rows->text(0), rows->text(1), {{std::move(*interaction), reward}}, now);
    });
    if (!taught) return tl::unexpected(taught.error());
    return write(("update interactions set state = 'closed', reward = ?2" + unrated).c_str(), value, reward).map([&] {
      return database.changes();
    });
  }
  expected<int> rate_abandoned(double now);  // (implicit.cpp)

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
      auto interaction = interaction_of(nlohmann::json::parse(rows->text(0)));
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

}  // namespace millrace
