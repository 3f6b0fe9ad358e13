#pragma once
// What is behind Ledger; for ledger*.cpp only.
#include <optional>
#include <stdexcept>

#include "runtime/ledger.hpp"
#include "runtime/ledger_file.hpp"
#include "runtime/sqlite.hpp"

namespace millrace {

struct Ledger::State {
  std::optional<FolderLock> lock;  // none when read-only; outlives the database
  Database database;
  TrajectoryId last_id = 0;
  std::int64_t last_position = 0;      // in the order of acceptance
  std::optional<LedgerCounts> counts;  // kept up to date by whoever writes
  bool forgetful = false;
};

// For reads whose interface has no room for an error: only a broken disk or a bug fails there.
template <class T>
T value_of(expected<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

// So many ids make whole groups, the first `ids` of them included.
inline TrajectoryId whole_groups(TrajectoryId ids, int size) {
  const auto members = static_cast<TrajectoryId>(size);
  return (ids + members - 1) / members * members;
}

// A number kept under a name; 0 where there is none yet.
expected<void> set_fact(const Database& database, const char* key, std::int64_t value);
std::int64_t fact(const Database& database, const char* key);

}  // namespace millrace
