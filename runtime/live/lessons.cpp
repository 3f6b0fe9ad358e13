// Lessons on their way to the ledger: each exactly once, whatever dies on the way.
#include "runtime/live/interactions_state.hpp"

namespace millrace {

using nlohmann::json;

namespace {

expected<Lesson> lesson_of(const Statement& row) {
  Lesson lesson{row.integer(0), 0, row.text(1), {}};
  for (const json& turn : json::parse(row.text(2))) {
    auto interaction = interaction_of(turn.at("interaction"));
    if (!interaction) return tl::unexpected(interaction.error());
    const json& reward = turn.at("reward");
    lesson.run.push_back(
        {std::move(*interaction), reward.is_number() ? std::optional(reward.get<double>()) : std::nullopt});
  }
  return lesson;
}

// Clients take turns: whose last lesson is longest ago comes first, so that one who floods the service waits behind all
// others. The first part finds the clients that have any by leaps from one to the next.
constexpr const char* next_lesson = R"(
with recursive clients (client) as (
  select min(client) from lessons indexed by lessons_waiting where state = 'waiting'
  union all
  select (select min(client) from lessons indexed by lessons_waiting
          where state = 'waiting' and client > clients.client)
  from clients where client is not null)
select number, client, body from lessons where number =
  (select (select min(number) from lessons w indexed by lessons_waiting
           where w.state = 'waiting' and w.client = c.client) as first
   from clients c where client is not null
   order by (select max(trajectory) from lessons t indexed by lessons_by_turn where t.client = c.client) nulls first,
   first limit 1))";

}  // namespace

expected<std::vector<Lesson>> Interactions::assign(const std::vector<TrajectoryId>& permits) {
  auto transaction = Transaction::begin(state_->database);
  if (!transaction) return tl::unexpected(transaction.error());
  std::vector<Lesson> lessons;
  for (const TrajectoryId permit : permits) {
    const auto row = state_->read(next_lesson);
    if (!row) return tl::unexpected(row.error());
    if (!*row) break;
    auto lesson = lesson_of(**row);
    if (!lesson) return tl::unexpected(lesson.error());
    lesson->trajectory = permit;
    const auto written = state_->write("update lessons set state = 'assigned', trajectory = ?2 where number = ?1",
                                       lesson->number, permit);
    if (!written) return tl::unexpected(written.error());
    lessons.push_back(std::move(*lesson));
  }
  if (auto done = transaction->commit(); !done) return tl::unexpected(done.error());
  return lessons;
}

expected<void> Interactions::confirm(std::int64_t lesson) {
  return state_->write_soon("update lessons set state = 'submitted', body = null where number = ?1", lesson);
}

expected<void> Interactions::unassign(std::int64_t lesson) {
  return state_->write("update lessons set state = 'waiting', trajectory = null where number = ?1", lesson);
}

expected<std::int64_t> Interactions::waiting_lessons() {
  return state_->database.number("select count(*) from lessons indexed by lessons_waiting where state = 'waiting'");
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

}  // namespace millrace
