// The ledger's size: settled trajectories leave it by age, or by number when the file grows too large; their counts
// stay.
#include <algorithm>

#include "runtime/ledger_state.hpp"

namespace millrace {

namespace {

constexpr int at_once = 1000;  // rows a call: a few milliseconds

// Bytes in use; pages of removed rows are free and will be used again.
std::int64_t bytes_of(const Database& database) {
  const std::int64_t pages = value_of(database.number("pragma page_count"));
  return (pages - value_of(database.number("pragma freelist_count"))) * value_of(database.number("pragma page_size"));
}

}  // namespace

expected<int> Ledger::prune(double settled_before, std::int64_t most_bytes, std::uint64_t step) {
  const Database& database = state_->database;
  const bool too_large = bytes_of(database) > most_bytes;
  auto rows = database.prepare(
      "select id, state from (select id, state, step, settled from trajectories order by id limit ?4) "
      "where state != 'queued' and (step is null or step <= ?1) and (settled < ?2 or ?3)");
  if (!rows) return tl::unexpected(rows.error());
  rows->bind(step, settled_before, static_cast<int>(too_large), at_once);
  std::vector<std::int64_t> ids;
  std::int64_t trained = 0;
  for (;;) {
    const auto row = rows->step();
    if (!row) return tl::unexpected(row.error());
    if (!*row) break;
    ids.push_back(rows->integer(0));
    trained += rows->text(1) == "trained";
  }
  if (ids.empty()) return 0;
  auto transaction = Transaction::begin(database);
  if (!transaction) return tl::unexpected(transaction.error());
  auto payload = database.prepare("delete from payloads where id = ?1");
  auto row = database.prepare("delete from trajectories where id = ?1");
  if (!payload || !row) return tl::unexpected(database.error());
  for (const std::int64_t id : ids) {
    payload->bind(id);
    row->bind(id);
    if (auto gone = payload->execute().and_then([&] { return row->execute(); }); !gone) {
      return tl::unexpected(gone.error());
    }
  }
  const auto rejected = static_cast<std::int64_t>(ids.size()) - trained;
  const auto add = [&](const char* key, std::int64_t count) {
    return set_fact(database, key, fact(database, key) + count);
  };
  auto noted =
      add("pruned_trained", trained)
          .and_then([&] { return add("pruned_rejected", rejected); })
          .and_then([&] { return set_fact(database, "pruned_to", std::max(fact(database, "pruned_to"), ids.back())); })
          .and_then([&] { return transaction->commit(); });
  if (!noted) return tl::unexpected(noted.error());
  return static_cast<int>(ids.size());
}

}  // namespace millrace
