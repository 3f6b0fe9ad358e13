#include "runtime/resumption.hpp"

#include "runtime/log.hpp"

namespace millrace {

namespace {

// The newest checkpoint that is whole. Errors: there are some, but none is whole; starting from scratch instead would
// lose what was learned without anybody noticing.
expected<StoredCheckpointPtr> newest_whole(const CheckpointStore& store, const std::vector<CheckpointRow>& rows) {
  std::string last;
  for (const CheckpointRow& row : rows) {
    expected<StoredCheckpointPtr> stored = store.read(row);
    if (stored) return stored;
    last = stored.error().message;
    log_warning("service", "checkpoint " + row.name + " is passed over: " + last);
  }
  if (rows.empty()) return StoredCheckpointPtr();
  return fail("none of its " + std::to_string(rows.size()) + " checkpoints is whole (" + last + ")");
}

}  // namespace

expected<Resumption> resume(Ledger& ledger, const CheckpointStore& store, std::uint64_t model, bool repeats) {
  const expected<LedgerPast> past = ledger.begin_incarnation(model);
  if (!past) return tl::unexpected(past.error());
  const std::vector<CheckpointRow> rows = ledger.checkpoints();
  std::vector<std::string> names;
  for (const CheckpointRow& row : rows) names.push_back(row.name);
  if (auto cleaned = store.keep_only(names); !cleaned) return tl::unexpected(cleaned.error());
  expected<StoredCheckpointPtr> checkpoint = newest_whole(store, rows);
  if (!checkpoint) return tl::unexpected(checkpoint.error());

  const CheckpointRow from = *checkpoint ? (*checkpoint)->row : CheckpointRow{};
  Resumption resumption{*checkpoint, past->incarnation, past->published};
  if (past->clean && past->step == from.step) return resumption;
  resumption.version = past->published + 2;
  const expected<int> queued_again = ledger.fork(from, resumption.version, repeats);
  if (!queued_again) return tl::unexpected(queued_again.error());
  log_warning("service", "the service before ended without a last checkpoint: version " +
                             std::to_string(from.policy_version) + " goes on as " + std::to_string(resumption.version) +
                             ", " + std::to_string(*queued_again) + " trajectories are queued again");
  return resumption;
}

}  // namespace millrace
