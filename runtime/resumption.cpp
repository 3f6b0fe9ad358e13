#include "runtime/resumption.hpp"

#include <algorithm>

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

expected<Resumption> resume(Ledger& ledger, const CheckpointStore& store, std::uint64_t model, bool repeats,
                            const Gather& gather) {
  const expected<LedgerPast> past = ledger.begin_incarnation(model);
  if (!past) return tl::unexpected(past.error());
  std::vector<CheckpointRow> rows = ledger.checkpoints();
  std::vector<std::string> names;
  for (const CheckpointRow& row : rows) names.push_back(row.name);
  if (auto cleaned = store.keep_only(names); !cleaned) return tl::unexpected(cleaned.error());
  expected<StoredCheckpointPtr> checkpoint = newest_whole(store, rows);
  if (!checkpoint) return tl::unexpected(checkpoint.error());
  const auto step_of = [](const StoredCheckpointPtr& stored) { return stored ? stored->row.step : 0; };

  const auto published = gather(static_cast<std::int64_t>(past->published));
  const auto steps = gather(static_cast<std::int64_t>(step_of(*checkpoint)));
  const auto in_order = gather(past->clean && past->step == step_of(*checkpoint));
  const auto learned = gather(static_cast<std::int64_t>(past->step));
  const auto equal = [](const std::vector<std::int64_t>& numbers) {
    return std::equal(numbers.begin() + 1, numbers.end(), numbers.begin());
  };
  Resumption resumption{*checkpoint, past->incarnation, past->published};
  if (equal(published) && equal(steps) && std::find(in_order.begin(), in_order.end(), 0) == in_order.end()) {
    return resumption;
  }
  const auto common = static_cast<std::uint64_t>(*std::min_element(steps.begin(), steps.end()));
  for (std::size_t rank = 0; rank < steps.size(); ++rank) {
    if (learned[rank] == 0 && *std::max_element(steps.begin(), steps.end()) > 0) {
      return fail("replica " + std::to_string(rank) +
                  " begins with an empty state, which would take the others back to "
                  "the start: give it a copy of the state directory of one of them");
    }
  }
  if (common < step_of(*checkpoint)) {
    std::erase_if(rows, [&](const CheckpointRow& row) { return row.step > common; });
    checkpoint = newest_whole(store, rows);
    if (!checkpoint) return tl::unexpected(checkpoint.error());
  }
  if (!equal(gather(static_cast<std::int64_t>(step_of(*checkpoint))))) {
    return fail("the replicas have no checkpoint of the same step (a larger checkpoint.keep keeps more of them)");
  }
  const CheckpointRow from = *checkpoint ? (*checkpoint)->row : CheckpointRow{};
  resumption.checkpoint = *checkpoint;
  resumption.version = static_cast<Version>(*std::max_element(published.begin(), published.end())) + 2;
  const expected<int> queued_again = ledger.fork(from, resumption.version, repeats);
  if (!queued_again) return tl::unexpected(queued_again.error());
  log_warning("service", "the service before ended without a last checkpoint: version " +
                             std::to_string(from.policy_version) + " goes on as " + std::to_string(resumption.version) +
                             ", " + std::to_string(*queued_again) + " trajectories are queued again");
  return resumption;
}

}  // namespace millrace
