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

// Who has taught least comes first: one client that floods the service waits behind all others.
constexpr const char* next_lesson = R"(
with firsts as (select client, min(number) as number from lessons where state = 'waiting' group by client)
select l.number, l.client, l.body from firsts join lessons l using (number) order by
  (select count(*) from lessons t where t.client = l.client and t.state not in ('waiting', 'capped') and
   t.created > l.created - ?1), l.number limit 1)";

}  // namespace

expected<std::vector<Lesson>> Interactions::assign(const std::vector<TrajectoryId>& permits) {
  auto transaction = Transaction::begin(state_->database);
  if (!transaction) return tl::unexpected(transaction.error());
  std::vector<Lesson> lessons;
  for (const TrajectoryId permit : permits) {
    const auto row = state_->read(next_lesson, State::limit_window_s);
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

}  // namespace millrace
