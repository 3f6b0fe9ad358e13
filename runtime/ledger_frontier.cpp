// The ledger's part in checkpoints: which are finished, how far the learners are beyond them, and what a fork of the
// lineage does to the trajectories.
#include <algorithm>

#include "runtime/ledger_state.hpp"

namespace millrace {

expected<void> set_fact(const Database& database, const char* key, std::int64_t value) {
  auto statement = database.prepare("insert or replace into facts values (?1, ?2)");
  if (!statement) return tl::unexpected(statement.error());
  statement->bind(key, value);
  return statement->execute();
}

std::int64_t fact(const Database& database, const char* key) {
  auto statement = value_of(database.prepare("select value from facts where key = ?1"));
  statement.bind(key);
  return value_of(statement.step()) ? statement.integer(0) : 0;
}

namespace {

// The newest version, in today's counting, that sampled what is queued or may be queued again. After a fork that
// repeats it may be one that is still to be made.
Version newest_stamp(const Database& database, const Lineage& lineage) {
  auto rows =
      value_of(database.prepare("select distinct policy_version_newest from trajectories "
                                "where outcome = 'queued' or step > (select coalesce(min(step), 0) from checkpoints)"));
  Version newest = 0;
  while (value_of(rows.step())) {
    newest = std::max(newest, lineage.today_or_from_fork(static_cast<Version>(rows.integer(0))));
  }
  return newest;
}

}  // namespace

expected<LedgerPast> Ledger::begin_incarnation(std::uint64_t model) {
  const Database& database = state_->database;
  const auto known = static_cast<std::uint64_t>(fact(database, "model"));
  if (known != 0 && known != model) {
    return fail("its trajectories and checkpoints are of another model or another seed");
  }
  LedgerPast past;
  past.incarnation = static_cast<std::uint64_t>(fact(database, "incarnation")) + 1;
  past.published = static_cast<Version>(fact(database, "published"));
  past.step = static_cast<std::uint64_t>(fact(database, "step"));
  past.clean = past.incarnation == 1 || fact(database, "clean") != 0;
  if (!past.clean) past.published = std::max(past.published, newest_stamp(database, lineage()));
  auto transaction = Transaction::begin(database);
  if (!transaction) return tl::unexpected(transaction.error());
  auto written = set_fact(database, "incarnation", static_cast<std::int64_t>(past.incarnation))
                     .and_then([&] { return set_fact(database, "clean", 0); })
                     .and_then([&] { return set_fact(database, "model", static_cast<std::int64_t>(model)); })
                     .and_then([&] { return transaction->commit(); });
  if (!written) return tl::unexpected(written.error());
  return past;
}

expected<void> Ledger::become_replica(int rank, Version version) {
  const std::int64_t was = fact(state_->database, "replica"), is = rank + 1;  // 0: nobody's yet
  if (was != 0 && was != is) {
    const auto settled = settle(queued(), Outcome::expired, "another replica learns from it", version);
    if (!settled) return settled;
  }
  return set_fact(state_->database, "replica", is);
}

expected<void> Ledger::end_incarnation() { return set_fact(state_->database, "clean", 1); }

std::vector<CheckpointRow> Ledger::checkpoints() const {
  auto rows = value_of(state_->database.prepare(
      "select name, policy_version, step, checksum, created, reward, reward_spec from checkpoints "
      "order by step desc, policy_version desc"));
  std::vector<CheckpointRow> checkpoints;
  while (value_of(rows.step())) {
    checkpoints.push_back({rows.text(0), static_cast<Version>(rows.integer(1)),
                           static_cast<std::uint64_t>(rows.integer(2)), static_cast<std::uint64_t>(rows.integer(3)),
                           rows.real(4), rows.real(5), static_cast<std::uint64_t>(rows.integer(6))});
  }
  return checkpoints;
}

expected<void> Ledger::name_checkpoint(const CheckpointRow& row, int keep, int keep_best) {
  const Database& database = state_->database;
  auto transaction = Transaction::begin(database);
  if (!transaction) return tl::unexpected(transaction.error());
  auto insert = database.prepare("insert or replace into checkpoints values (?, ?, ?, ?, ?, ?, ?)");
  auto forget = database.prepare(
      "delete from checkpoints where name not in "
      "(select name from checkpoints order by step desc, policy_version desc limit ?1) and name not in "
      "(select name from checkpoints where reward_spec = ?3 and reward is not null order by reward desc, step desc "
      "limit ?2)");
  if (!insert || !forget) return tl::unexpected(database.error());
  insert->bind(row.name, row.policy_version, row.step, row.checksum, row.created, row.reward, row.reward_spec);
  forget->bind(keep, keep_best, row.reward_spec);
  return insert->execute().and_then([&] { return forget->execute(); }).and_then([&] { return transaction->commit(); });
}

Lineage Ledger::lineage() const {
  auto rows =
      value_of(state_->database.prepare("select policy_version, resumed_as, repeats from forks order by resumed_as"));
  Lineage lineage;
  while (value_of(rows.step())) {
    lineage.add({static_cast<Version>(rows.integer(0)), static_cast<Version>(rows.integer(1)), rows.integer(2) != 0});
  }
  return lineage;
}

expected<int> Ledger::fork(const CheckpointRow& from, Version resumed_as, bool repeats) {
  // A checkpoint from before an earlier fork has another number in today's counting.
  const auto at = lineage().today(from.policy_version);
  if (!at) return fail("version " + std::to_string(from.policy_version) + " is of an abandoned lineage");
  const Database& database = state_->database;
  auto transaction = Transaction::begin(database);
  if (!transaction) return tl::unexpected(transaction.error());
  auto insert = database.prepare("insert into forks values (?, ?, ?, (julianday('now') - 2440587.5) * 86400, ?)");
  auto queue_again = database.prepare(
      "update trajectories set outcome = 'queued', reason = '', version = null, settled = null, step = null, "
      "step_position = null, step_pack = null where step > ?1");
  auto forget = database.prepare("delete from checkpoints where step > ?1");
  if (!insert || !queue_again || !forget) return tl::unexpected(database.error());
  insert->bind(*at, resumed_as, from.step, static_cast<int>(repeats));
  queue_again->bind(from.step);
  forget->bind(from.step);
  int queued = 0;
  auto written = insert->execute()
                     .and_then([&] { return queue_again->execute(); })
                     .and_then([&] {
                       queued = database.changes();
                       return forget->execute();
                     })
                     .and_then([&] { return set_fact(database, "step", static_cast<std::int64_t>(from.step)); })
                     .and_then([&] { return set_fact(database, "published", static_cast<std::int64_t>(resumed_as)); })
                     .and_then([&] { return transaction->commit(); });
  state_->counts.reset();
  if (!written) return tl::unexpected(written.error());
  return queued;
}

std::vector<Ledger::Learned> Ledger::batch(std::uint64_t step) const {
  auto rows = value_of(state_->database.prepare(
      "select id, step_pack, version from trajectories where step = ?1 order by step_position"));
  rows.bind(step);
  std::vector<Learned> batch;
  while (value_of(rows.step())) {
    batch.push_back({static_cast<TrajectoryId>(rows.integer(0)), static_cast<int>(rows.integer(1)),
                     static_cast<Version>(rows.integer(2))});
  }
  return batch;
}

std::deque<UnfinishedGroup> Ledger::unfinished_groups(int size) const {
  constexpr TrajectoryId furthest = 131072;  // sessions finish in any order, but never further apart than this
  const TrajectoryId last = state_->last_id;
  const auto pruned_to = static_cast<TrajectoryId>(fact(state_->database, "pruned_to"));
  const TrajectoryId before = whole_groups(std::max(pruned_to, last > furthest ? last - furthest : 0), size);
  auto rows = value_of(state_->database.prepare(
      "select id, outcome = 'queued', outcome in ('trained', 'skipped', 'stale', 'group_dropped') from trajectories "
      "where id > ?1 order by id"));
  rows.bind(before);
  bool more = value_of(rows.step());
  std::deque<UnfinishedGroup> unfinished;
  for (TrajectoryId id = before + 1; id <= last;) {
    UnfinishedGroup group;
    bool had_closed = false;  // without those that are missing: it had waited too long for them
    for (int member = 0; member < size; ++member, ++id) {
      if (!more || static_cast<TrajectoryId>(rows.integer(0)) != id) {
        group.missing.push_back(id);
        continue;
      }
      if (rows.integer(1) != 0) group.queued.push_back(id);
      had_closed = had_closed || rows.integer(2) != 0;
      more = value_of(rows.step());
    }
    if (!group.missing.empty() && !had_closed) unfinished.push_back(std::move(group));
  }
  return unfinished;
}

std::uint64_t Ledger::step() const { return static_cast<std::uint64_t>(fact(state_->database, "step")); }

std::vector<TrajectoryId> Ledger::scored() const {
  // Those that were in the queue, at least for a while.
  auto rows = value_of(state_->database.prepare(
      "select id from trajectories where outcome in ('queued', 'trained', 'stale', 'skipped', 'rolled_back', "
      "'group_dropped') order by id"));
  std::vector<TrajectoryId> ids;
  while (value_of(rows.step())) ids.push_back(static_cast<TrajectoryId>(rows.integer(0)));
  return ids;
}

std::vector<TrajectoryId> Ledger::queued() const {
  auto rows =
      value_of(state_->database.prepare("select id from trajectories where state = 'queued' order by position"));
  std::vector<TrajectoryId> ids;
  while (value_of(rows.step())) ids.push_back(static_cast<TrajectoryId>(rows.integer(0)));
  return ids;
}

}  // namespace millrace
