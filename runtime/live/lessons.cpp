// Lessons on their way to the ledger: each exactly once, whatever dies on the way.
#include "runtime/live/interactions_state.hpp"

namespace millrace {

using nlohmann::json;

expected<std::optional<Lesson>> Interactions::next_lesson() {
  // Who has taught least comes first: one client that floods the service waits behind all others.
  const auto found = state_->read(
      "select number, client, body from lessons l where state = 'waiting' order by "
      "(select count(*) from lessons t where t.client = l.client and t.state not in ('waiting', 'capped') and "
      "t.created > l.created - ?1), "
      "number limit 1",
      State::limit_window_s);
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

}  // namespace millrace
