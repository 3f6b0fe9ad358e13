#pragma once
// The file under the ledger: its schema, its format number, and the lock that keeps a second service away from it.
// ledger.hpp says what is kept in it.
#include <string>
#include <utility>

#include "config/expected.hpp"
#include "runtime/sqlite.hpp"

namespace millrace {

// One service a state directory. The kernel drops the lock with the process, so a killed one leaves nothing stale.
class FolderLock {
 public:
  // Creates the directory where it is missing. Errors: not writable, held by another service.
  static expected<FolderLock> take(const std::string& directory);
  FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// Opens or creates directory/ledger.sqlite: WAL, every commit on disk before it returns.
// Errors: not a ledger, damaged, a newer format.
expected<Database> open_ledger_file(const std::string& directory);
expected<Database> open_ledger_in_memory();
expected<Database> open_ledger_file_read_only(const std::string& directory);

}  // namespace millrace
